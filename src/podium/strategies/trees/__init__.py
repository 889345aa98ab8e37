"""TODO strategies.trees"""
