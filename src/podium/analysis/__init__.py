"""TODO analysis"""
