"""Which changes conflict: the table, its rules, and what they tell."""
