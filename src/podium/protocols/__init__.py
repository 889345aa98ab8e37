"""Interfaces between worlds, samplers and strategies: tasks and episodes, contexts, sampling requests."""
