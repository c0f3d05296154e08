"""The next manifest, built from the previous one by each operation."""
