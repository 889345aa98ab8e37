"""Functionals of the head: log-probability, entropy and other numbers per token or rollout.

Start with `functionals.py`, which says how to add one.
"""
