"""Tree-structured rollouts: forks at chosen tokens, search, and pruning."""
