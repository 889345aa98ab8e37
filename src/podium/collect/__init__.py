"""TODO collect"""
