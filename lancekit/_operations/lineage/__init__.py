"""Diffs, merges and histories: compare versions of one table, or of two tables that share a key."""
