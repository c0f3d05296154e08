"""SQL statements: parsed in a dialect of their own, worked out by the operations that exist."""
