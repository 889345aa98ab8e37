"""What the catalogue says about itself: one page per method, and the files that the command line reads without torch.

python -m podium.docs docs/methods
"""
