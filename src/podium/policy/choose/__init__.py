"""Choosers: policies that score a set of options and choose among them."""
