"""A door: pylance's `util`, of which this has what is asked of an index of vectors."""

from lancekit.api.vector_check import validate_vector_index

__all__ = ["validate_vector_index"]
