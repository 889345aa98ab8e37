"""Entropy, exploration and token-level shaping of advantages, clip ranges and losses."""
