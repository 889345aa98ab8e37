"""Training and sampling on an NVIDIA GPU. Where a GPU is missing, the same code runs by plain torch, for tests."""
