"""Podium's numbers against those of the neighbours' own functions, run live."""
