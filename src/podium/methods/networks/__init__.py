"""Policies that write no text: choosers, which decide among options, and flows, which draw."""
