"""TODO collect.annotations"""
