"""The part of a fragment that reads its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.scan_options import Columns, OneFragment, ScanOptions
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._checked import checked_methods
from lancekit._format.extensions import resolved
from lancekit._format.fragment import Fragment
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.take import parse_positions, take_rows

__all__ = ["FragmentSession", "ReadingFragment"]


@dataclass(frozen=True, slots=True)
class FragmentSession:
    """Takes the same columns of a fragment again and again; `LanceFragment.open_session`."""

    _fragment: ReadingFragment
    _columns: Columns

    def take(self, indices: Any) -> pa.Table:
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

    def count_rows(self, filter: Any = None) -> int:  # noqa: A002
        """Count the fragment's rows, or those that a filter selects."""
        if filter is None:
            return self.metadata.num_rows
        return self.scanner(columns=[], filter=filter).count_rows()

    def scanner(
        self,
        *,
        columns: Columns = None,
        batch_size: int | None = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: list[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> LanceScanner:
        """Set up a scan of the fragment; arguments as in `LanceDataset.scanner`."""
        return self._scan(ScanOptions.said(locals()))

    def _scan(self, options: ScanOptions) -> LanceScanner:
        return scan_of(self._dataset._snapshot, replace(options, fragments=[self]))

    def to_table(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: str | None = None,
        order_by: list[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> pa.Table:
        """Read the fragment's rows into an Arrow table."""
        return self._scan(ScanOptions.said(locals())).to_table()

    def to_batches(
        self,
        *,
        columns: Columns = None,
        batch_size: int | None = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: list[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the fragment's rows batch by batch."""
        return self._scan(ScanOptions.said(locals())).to_batches()

    def to_pandas(
        self,
        columns: Columns = None,
        filter: Any = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_mode: str = "lazy",
        order_by: list[Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read the fragment's rows into a pandas DataFrame, as `LanceDataset.to_pandas` does."""
        options = ScanOptions.said(locals(), "blob_mode", "kwargs")
        return self._scan(options).to_pandas(blob_mode=blob_mode, **kwargs)

    def take(self, indices: Any, columns: Columns = None) -> pa.Table:
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
