"""TODO family preference"""
