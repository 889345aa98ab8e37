"""Kernels for training and sampling on an NVIDIA GPU. Without a GPU the same code runs in plain torch, for tests.

Training: `block.py` and `attention.py` over `ops.py`. Sampling: `pages.py` (the paged KV cache) and `decode.py`.
"""
