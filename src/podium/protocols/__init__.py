"""TODO protocols"""
