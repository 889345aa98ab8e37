"""TODO policy.roles"""
