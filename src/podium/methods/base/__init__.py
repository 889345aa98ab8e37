"""TODO family base"""
