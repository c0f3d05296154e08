"""Merge-inserts on Spark."""
