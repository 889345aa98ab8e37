"""Bandits, fairness, offline learning and off-policy evaluation: no method trains a language model here."""
