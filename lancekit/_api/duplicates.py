"""`Duplicates`: the rows of a version that share a key with another row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.scanner import scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.paths import find_field, paths_by_id
from lancekit._format.schema import check_key_type
from lancekit._pipeline.diff.values import Seeds, digests
from lancekit._pipeline.engine.pandas_frames import exact_frame
from lancekit._pipeline.keys.hash import Hashes, known_rows
from lancekit._pipeline.keys.key_counter import KeyCounter, key_words
from lancekit._pipeline.keys.source_keys import key_columns
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.order_by import parse_orderings, sorted_table
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Duplicates", "duplicates_of"]

#: rows that are kept to be shown
_MOST = 100_000


@checked_methods
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Duplicates(Displayed):
    """The rows that share a key with another row; `LanceDataset.duplicates` makes it.

    Attributes
    ----------
    on
        The columns of the key.
    total
        How many rows the version has.
    rows
        How many of them share their key with another row.
    keys
        How many different keys these rows have.
    """

    on: tuple[str, ...]
    total: int
    rows: int
    keys: int
    _snapshot: Snapshot = field(repr=False)
    _found: pa.Table = field(repr=False)

    def to_table(self, limit: int | None = None) -> pa.Table:
        """Return the rows with all columns and ``_rowid``, in the order of their keys.

        There are at most 100,000, or ``limit``.  ``ds.delete`` of some row ids removes rows.
        """
        most = _MOST if limit is None else check_count("limit", limit)
        ids = self._found["_rowid"].slice(0, most).to_pylist()
        if not ids:
            options = ScanArguments(limit=0, with_row_id=True)
            return scan_of(self._snapshot, options).to_table()
        chosen = f"_rowid IN ({', '.join(map(str, ids))})"
        options = ScanArguments(filter=chosen, with_row_id=True)
        rows = scan_of(self._snapshot, options).to_table()
        return _by_key(rows, self.on)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; as `to_table`."""
        return exact_frame(self.to_table(limit), {})

    def _plain(self) -> str:
        return f"Duplicates({', '.join(self.on)}: {self.rows} of {self.total} rows)"


def duplicates_of(snapshot: Snapshot, on: Sequence[str] | None) -> Duplicates:
    """Find the rows that share a key; see `LanceDataset.duplicates`."""
    schema = snapshot.manifest.schema
    paths = paths_by_id(schema)
    key = tuple(paths[one.id] for one in schema.primary_key) if on is None else tuple(on)
    if not key:
        raise InvalidArgumentError(
            "The dataset has no primary key, so the columns to compare are not known.",
            hint='Name them: ds.duplicates(["id"]).',
        )
    for path in key:
        check_key_type(find_field(schema, path)[-1])
    with KeyCounter() as counter:
        for rows in _scanned(snapshot, key):
            counter.add(key_columns(rows, key))
        found = counter.repeated()
    alike = _of(snapshot, key, found.words)
    together, shared = _shared(alike, key)
    exact = len(alike) < _MOST
    return Duplicates(
        on=key,
        total=snapshot.manifest.num_rows,
        rows=len(shared) if exact else found.rows,
        keys=together if exact else found.keys,
        _snapshot=snapshot,
        _found=shared,
    )


def _scanned(snapshot: Snapshot, key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    options = ScanArguments(columns=list(key), with_row_id=True)
    yield from scan_of(snapshot, options).to_batches()


def _of(snapshot: Snapshot, key: Sequence[str], words: Hashes) -> pa.Table:
    """Return the keys and row ids of rows whose words are repeated, as many as are kept."""
    found, missing = list[pa.RecordBatch](), _MOST
    for batch in _scanned(snapshot, key) if len(words) else ():
        columns = key_columns(batch, key)
        places = known_rows(columns)[np.isin(key_words(columns), words)][:missing]
        if len(places):
            found.append(ak.take(batch, places))
            missing -= len(places)
        if not missing:
            break
    schema = scan_of(snapshot, ScanArguments(columns=list(key), with_row_id=True)).projected_schema
    return pa.Table.from_batches(found, schema)


def _shared(rows: pa.Table, key: Sequence[str]) -> tuple[int, pa.Table]:
    """Return how many keys really stand more than once, and their rows, in order."""
    if not len(rows):
        return 0, rows
    found = digests(key_columns(rows, key), Seeds.drawn())
    both = np.stack([found.first, found.second], axis=1).view("V16").ravel()
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    shared = ak.take(rows, np.flatnonzero(counts[inverse] > 1))
    return int((counts > 1).sum()), _by_key(shared, key)


def _by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    names = [f"key{place}" for place in range(len(key))]
    keys = pa.table(key_columns(rows, key), names=names)
    numbered = keys.append_column("row", pa.array(np.arange(len(rows))))
    order = sorted_table(numbered, parse_orderings(names))
    return taken(rows, ak.combine_chunks(order["row"]).to_numpy())
