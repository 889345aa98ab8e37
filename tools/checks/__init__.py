"""Checks that are too long for every change, and those that need a GPU. Their results are committed, with dates."""
