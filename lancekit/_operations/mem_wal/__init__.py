"""Operations on tables with write-ahead logs (MemWAL): write to shards, read, merge, repair."""
