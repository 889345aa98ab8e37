"""TODO strategies.budgets"""
