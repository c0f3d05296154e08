"""Indices: made, dropped, kept up and told of."""
