"""Independent rollouts of each task, and close relatives of that."""
