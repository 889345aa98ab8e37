"""Preferences and generative reward models."""
