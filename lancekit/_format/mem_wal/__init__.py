"""MemWAL as bytes: names, messages, keys, and how rows are given to shards.

See docs/format/memwal.md, 1.
"""
