"""Compaction, clones, inventories, validation."""
