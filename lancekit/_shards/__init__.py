"""Files of shards: manifests, entries of logs, schemas (docs/format/memwal.md, 1)."""
