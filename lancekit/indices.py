"""A door: pylance's `indices`, of which this has what scalar indices need."""

from lancekit.api.index_config import IndexConfig
from lancekit.operations.index.describe import IndexDescription, IndexSegmentDescription

__all__ = ["IndexConfig", "IndexDescription", "IndexSegmentDescription"]
