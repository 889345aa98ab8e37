"""TODO family selection"""
