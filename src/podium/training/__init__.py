"""Training: the loop, the state of a run, the trainer, checkpoints and metrics."""
