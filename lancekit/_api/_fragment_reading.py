"""The part of a fragment that reads its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.planned_scan import OneFragment
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.record import takes
from lancekit._arguments.scan import (
    FragmentFrameArguments,
    FragmentScanArguments,
    ScanArguments,
)
from lancekit._arguments.types import Columns
from lancekit._checked import checked_methods
from lancekit._format.extensions import resolved
from lancekit._format.fragment import Fragment
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.take import parse_positions, take_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FragmentSession", "ReadingFragment"]


@dataclass(frozen=True, slots=True)
class FragmentSession:
    """Takes the same columns of a fragment again and again; `LanceFragment.open_session`."""

    _fragment: ReadingFragment
    _columns: Columns

    def take(self, indices: object) -> pa.Table:
        """Read rows by their position among the fragment's live rows."""
        return self._fragment.take(indices, self._columns)


@checked_methods
class ReadingFragment(OneFragment):
    """Scans and positions over one fragment; the signatures are pylance's."""

    _dataset: Handle

    @property
    def metadata(self) -> Fragment:
        """What the manifest says of the fragment."""
        return self.source.fragment

    def count_rows(self, filter: object = None) -> int:  # noqa: A002
        """Count the fragment's rows, or those that a filter selects."""
        if filter is None:
            return self.metadata.num_rows
        return self.scanner(columns=[], filter=filter).count_rows()

    @takes(FragmentScanArguments, "")
    def scanner(self, arguments: FragmentScanArguments) -> LanceScanner:
        """Set up a scan of the fragment; nothing is read yet."""
        return self._scan(arguments)

    def _scan(self, arguments: FragmentScanArguments | FragmentFrameArguments) -> LanceScanner:
        whole = arguments.as_(ScanArguments, fragments=[self])
        return scan_of(self._dataset._snapshot, whole)

    @takes(
        FragmentScanArguments,
        "columns filter limit offset with_row_id with_row_address blob_handling order_by "
        "use_scalar_index io_buffer_size late_materialization include_deleted_rows "
        "batch_size_bytes strict_batch_size",
    )
    def to_table(self, arguments: FragmentScanArguments) -> pa.Table:
        """Read the fragment's rows into an Arrow table."""
        return self._scan(arguments).to_table()

    @takes(FragmentScanArguments, "")
    def to_batches(self, arguments: FragmentScanArguments) -> Iterator[pa.RecordBatch]:
        """Read the fragment's rows batch by batch."""
        return self._scan(arguments).to_batches()

    @takes(
        FragmentFrameArguments,
        "columns filter limit offset batch_size with_row_id with_row_address blob_mode order_by",
    )
    def to_pandas(self, arguments: FragmentFrameArguments) -> pd.DataFrame:
        """Read the fragment's rows into a pandas DataFrame, as `LanceDataset.to_pandas` does."""
        scanner = self._scan(arguments)
        return scanner.to_pandas(blob_mode=arguments.blob_mode, **arguments.for_arrow())

    def take(self, indices: object, columns: Columns = None) -> pa.Table:
        """Read rows by their position among the fragment's live rows."""
        schema = blob_view(self._dataset._snapshot.manifest.schema)
        rows = self.metadata.num_rows
        positions = parse_positions(indices, rows)
        alone, ends = replace(self.source, first_row=0), np.array([rows])
        return resolved(take_rows([alone], ends, columns, positions, schema))

    def open_session(
        self,
        columns: list[str] | dict[str, str] | None = None,
        with_row_address: bool | None = None,
    ) -> FragmentSession:
        """Return what takes rows again and again; ``_rowaddr`` comes last if it is wanted."""
        if with_row_address and isinstance(columns, dict):
            columns = {**columns, "_rowaddr": "_rowaddr"}
        elif with_row_address:
            names = self._dataset._snapshot.manifest.schema.names
            columns = [*(names if columns is None else columns), "_rowaddr"]
        return FragmentSession(self, columns)

    def head(self, num_rows: int) -> pa.Table:
        """Read the fragment's first rows."""
        return self.scanner().head(num_rows)
