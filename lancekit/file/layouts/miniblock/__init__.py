"""Pages of small chunks that are decoded whole, for narrow values."""
