"""Conflict rules: the table of operations, its rules, and their verdicts."""
