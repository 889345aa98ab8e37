"""TODO family trees"""
