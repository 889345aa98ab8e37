"""TODO family hints"""
