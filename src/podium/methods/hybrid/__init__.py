"""TODO family hybrid"""
