"""Group-relative advantages, baselines, trust regions, difficulty and length bias."""
