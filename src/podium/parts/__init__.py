"""TODO parts"""
