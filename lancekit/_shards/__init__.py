"""Files of shards: manifests, log entries, schemas (docs/format/memwal.md, 1)."""
