"""Columns: added, altered, replaced, dropped."""
