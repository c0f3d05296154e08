"""Read a table together with the rows of its shards: the newest row of each key."""
