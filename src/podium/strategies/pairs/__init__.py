"""Pairs of answers, a better and a worse one, from a file, from the world's own writing, or from exact walks."""
