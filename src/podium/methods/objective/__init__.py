"""TODO family objective"""
