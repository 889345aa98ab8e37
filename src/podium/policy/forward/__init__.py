"""TODO policy.forward"""
