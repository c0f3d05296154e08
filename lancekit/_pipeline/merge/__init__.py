"""Merge-insert on Arrow batches."""
