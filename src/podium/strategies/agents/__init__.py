"""Strategies for worlds of several agents."""
