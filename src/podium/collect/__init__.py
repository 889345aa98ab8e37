"""Collecting rollouts: a driver runs the plans of rollout strategies over samplers and worlds."""
