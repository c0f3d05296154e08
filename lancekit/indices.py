"""pylance's `indices`, re-exported: configuration, description and stepwise building of indices."""

from lancekit._api.index_models import IndexFileVersion, IvfModel, PqModel
from lancekit._api.index_requests import IndexConfig
from lancekit._api.lance_operation import Index as IndexSegment
from lancekit._operations.index.describe import IndexDescription, IndexSegmentDescription
from lancekit._pylance.indices_builder import IndicesBuilder

__all__ = [
    "IndexConfig",
    "IndexDescription",
    "IndexFileVersion",
    "IndexSegment",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "IvfModel",
    "PqModel",
]
