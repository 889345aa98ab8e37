"""TODO strategies.teachers"""
