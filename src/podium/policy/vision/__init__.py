"""Language models that see pictures: their processors, and pictures among the tokens of a context."""
