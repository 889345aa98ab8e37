"""Credit assignment over several turns, for agents that use tools or play games."""
