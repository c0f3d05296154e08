"""Full-text indices: how text becomes tokens, and who holds them, how often and where."""
