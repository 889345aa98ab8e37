"""Rewards without labels: majority votes, self-consistency and pseudo-labels."""
