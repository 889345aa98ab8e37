"""Files of runs: the run directory, atomic writes, JSON lines."""
