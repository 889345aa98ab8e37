"""TODO sessions"""
