"""Rows of a fragment: written, deleted, updated, compacted."""
