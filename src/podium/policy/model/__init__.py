"""TODO policy.model"""
