"""Container of a data file (chapters 1 to 3): footer, tables, pages, checksums."""
