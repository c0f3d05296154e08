"""Columns of a field: pages, readers and writers."""
