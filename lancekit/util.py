"""pylance's `util`, re-exported as far as it concerns vectors."""

from lancekit._pylance.clustering import KMeans, validate_vector_index

__all__ = ["KMeans", "validate_vector_index"]
