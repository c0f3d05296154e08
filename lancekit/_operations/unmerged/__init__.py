"""Rows of shards that are in no version, and the changes that would lose them."""
