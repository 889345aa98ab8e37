"""Which numbers hold which formula: the entry points of parts, what runs them, and mutants of them."""
