"""Full-text search and nearest-neighbour search."""
