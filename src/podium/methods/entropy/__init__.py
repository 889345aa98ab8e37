"""TODO family entropy"""
