"""A door: pylance's `util`, of which this has what is for vectors."""

from lancekit._api.clustering import KMeans
from lancekit._api.vector_check import validate_vector_index

__all__ = ["KMeans", "validate_vector_index"]
