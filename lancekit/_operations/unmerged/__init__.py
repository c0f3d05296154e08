"""Rows of shards that are in no version yet, and checks of changes that would lose them."""
