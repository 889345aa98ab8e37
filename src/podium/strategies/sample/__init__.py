"""TODO strategies.sample"""
