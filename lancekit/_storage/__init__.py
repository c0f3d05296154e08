"""Stores for bytes: local folders (own code, durable), object stores and memory (by obstore)."""
