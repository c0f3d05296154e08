"""Tables with write-ahead logs: their shards, what is written to these, read and merged."""
