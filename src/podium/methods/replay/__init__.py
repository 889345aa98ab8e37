"""Replay of earlier rollouts, off-policy, to keep groups informative."""
