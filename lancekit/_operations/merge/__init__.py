"""Merge-insert, done or previewed."""
