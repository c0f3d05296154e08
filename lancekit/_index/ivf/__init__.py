"""Vector indices: partitions by centroids, with stored vectors or codes in each."""
