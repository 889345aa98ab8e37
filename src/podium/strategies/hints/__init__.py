"""TODO strategies.hints"""
