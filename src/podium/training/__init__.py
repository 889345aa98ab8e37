"""Training: the loop, the collection driver, the trainer, checkpoints and runs."""
