"""SQL statements: parsed in lancekit's dialect, and run by the operations of datasets."""
