"""Rollouts with help: hints, worked examples, rubrics, and repair of failed groups."""
