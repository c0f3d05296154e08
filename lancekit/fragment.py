"""`LanceFragment`: one fragment of a version, to be read on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit.format.extensions import resolved, resolved_schema
from lancekit.format.fragment import DataFile, Fragment
from lancekit.not_offered import PartOfPylance
from lancekit.scan.blobs import blob_view
from lancekit.scan.fragment import FragmentSource
from lancekit.scan.take import parse_positions, take_rows
from lancekit.scanner import Columns, LanceScanner

if TYPE_CHECKING:
    from lancekit.reading import Reading

__all__ = ["LanceFragment"]


class LanceFragment(PartOfPylance):
    """A fragment of a dataset's version; made by `LanceDataset.get_fragments`."""

    def __init__(self, dataset: Reading, source: FragmentSource) -> None:
        self._dataset = dataset
        self.source = source

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, rows={self.metadata.num_rows})"

    @property
    def fragment_id(self) -> int:
        """The fragment's id."""
        return self.metadata.id

    @property
    def metadata(self) -> Fragment:
        """What the manifest says of the fragment."""
        return self.source.fragment

    @property
    def schema(self) -> pa.Schema:
        """The dataset's schema."""
        return self._dataset.schema

    @property
    def physical_rows(self) -> int:
        """The rows in the files, deleted ones included."""
        return self.metadata.physical_rows

    @property
    def num_deletions(self) -> int:
        """The rows that are deleted."""
        return self.metadata.num_deletions

    def data_files(self) -> list[DataFile]:
        """Return the fragment's data files."""
        return list(self.metadata.files)

    def deletion_file(self) -> str | None:
        """Return the deletion file's path relative to its root, ``None`` if nothing is deleted."""
        return self.source.deletion.name if self.source.deletion else None

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
        given = {name: value for name, value in locals().items() if name != "self"}
        return self._dataset.scanner(fragments=[self], **given)

    def to_table(self, columns: Columns = None, filter: Any = None, **kwargs: Any) -> pa.Table:  # noqa: A002
        """Read the fragment's rows into an Arrow table."""
        return self.scanner(columns=columns, filter=filter, **kwargs).to_table()

    def to_batches(self, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        """Read the fragment's rows batch by batch."""
        return self.scanner(**kwargs).to_batches()

    def to_pandas(self, columns: Columns = None, filter: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Read the fragment's rows into a pandas DataFrame."""
        return self.scanner(columns=columns, filter=filter, **kwargs).to_pandas()

    def take(self, indices: Any, columns: Columns = None) -> pa.Table:
        """Read rows by their position among the fragment's live rows."""
        schema = blob_view(self._dataset.lance_schema)
        alone = replace(self.source, first_row=0, schema=schema)
        positions = parse_positions(indices, self.metadata.num_rows)
        return resolved(take_rows([alone], columns, positions, schema))

    @property
    def physical_schema(self) -> pa.Schema:
        """The dataset's fields that are stored in the fragment's files."""
        stored = {id_ for file in self.metadata.files for id_ in file.fields}
        top = self._dataset.lance_schema.fields
        present = [f.to_arrow() for f in top if stored & {g.id for g in f.walk()}]
        return resolved_schema(pa.schema(present))

    def head(self, num_rows: int) -> pa.Table:
        """Read the fragment's first rows."""
        return self.scanner().head(num_rows)
