"""pylance's `fragment`, re-exported from `lancekit._api.fragment` and other modules."""

from lancekit._api._fragment_reading import FragmentSession
from lancekit._api.fragment import FragmentMetadata, LanceFragment, write_fragments
from lancekit._format.data_file import DataFile, DeletionFile, RowDatasetVersionMeta, RowIdMeta
from lancekit._pylance.row_id_sequence import RowIdSequence

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
