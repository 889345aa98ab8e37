"""TODO family process"""
