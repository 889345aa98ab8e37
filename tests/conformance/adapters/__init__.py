"""An adapter for each slug, in modules that mirror `podium.methods`: from a case to library calls, no formulas."""
