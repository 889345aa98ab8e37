"""Advice that learns: texts in the prompt that are edited by what came of them, and who writes them."""
