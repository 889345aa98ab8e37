"""Hints, rubrics and other guidance while sampling, mostly for tasks that the policy cannot solve yet."""
