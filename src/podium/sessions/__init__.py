"""Sessions: a whole training, evaluation or comparison from start to end, as the command line runs it."""
