"""A door: pylance's `fragment`, which is `lancekit.api.fragment`."""

from lancekit.api._fragment_reading import FragmentSession
from lancekit.api.fragment import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    LanceFragment,
    RowDatasetVersionMeta,
    RowIdMeta,
    write_fragments,
)
from lancekit.api.row_id_sequence import RowIdSequence

__all__ = [
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "write_fragments",
]
