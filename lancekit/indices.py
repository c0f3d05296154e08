"""A door: pylance's `indices`, of which this has what scalar indices need."""

from lancekit.api.index_config import IndexConfig

__all__ = ["IndexConfig"]
