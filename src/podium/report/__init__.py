"""What people see of a run: HTML reports, charts, conversations, and progress at the terminal."""
