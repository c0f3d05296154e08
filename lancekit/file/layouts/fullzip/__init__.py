"""Pages that keep each value with its levels, for wide values."""
