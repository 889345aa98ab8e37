"""Rollouts that a judge compares or rates."""
