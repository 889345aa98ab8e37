"""TODO policy.head"""
