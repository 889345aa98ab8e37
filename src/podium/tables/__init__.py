"""Pure functions over tables: bandits, online learning, fairness, offline learning, off-policy evaluation.

No function here knows a language model. The labs run them on problems with a known truth, and a few parts of training
runs call the same functions.
"""
