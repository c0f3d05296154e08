"""Indices of vectors: partitions by centroids, and what stands for the vectors in each."""
