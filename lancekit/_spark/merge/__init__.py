"""Merge-insert on Spark."""
