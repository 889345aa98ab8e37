"""How many rollouts a task gets, and how long they may be."""
