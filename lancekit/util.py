"""A door: pylance's `util`, of which this has what is for vectors."""

from lancekit._pylance.clustering import KMeans, validate_vector_index

__all__ = ["KMeans", "validate_vector_index"]
