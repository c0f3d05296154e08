"""One fragment's rows."""
