"""Flows: policies that draw, in steps from noise to a picture."""
