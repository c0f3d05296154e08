"""Cleanup: remove old versions, and files that no version needs."""
