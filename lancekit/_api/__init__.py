"""The public face: the class of datasets, its parts, and their companions."""
