"""A door: pylance's `util`, of which this has what is for vectors."""

from lancekit._api.clustering import KMeans, validate_vector_index

__all__ = ["KMeans", "validate_vector_index"]
