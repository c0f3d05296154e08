"""A door: pylance's `fragment`, which is `lancekit.api.fragment`."""

from lancekit.api.fragment import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    LanceFragment,
    RowDatasetVersionMeta,
    RowIdMeta,
    write_fragments,
)

__all__ = [
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "write_fragments",
]
