"""TODO family study"""
