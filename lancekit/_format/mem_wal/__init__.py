"""MemWAL on disk: file names, messages, key encoding, and assignment of rows to shards.

See docs/format/memwal.md, 1.
"""
