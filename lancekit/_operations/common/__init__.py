"""Retries, results and staged files, shared by all operations."""
