"""TODO family replay"""
