"""Differences between two versions of a table: fragments, rows and values."""
