"""TODO family turns"""
