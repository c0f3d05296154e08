"""Reading a table with the rows that its shards hold: the newest row of each key."""
