"""TODO family group"""
