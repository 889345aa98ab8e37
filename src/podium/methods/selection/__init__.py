"""Data selection, curricula and rollout budgets: which tasks to sample, and how often."""
