"""Checks of operations and constraints before a commit."""
