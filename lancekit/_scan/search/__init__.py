"""Searches: rows by the words of their texts, and by how near their vectors are."""
