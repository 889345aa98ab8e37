"""Losses other than a clipped policy gradient: classification, regression and value functions."""
