"""Rewards of several terms: what an answer says, how it is laid out, and whether it is consistent."""
