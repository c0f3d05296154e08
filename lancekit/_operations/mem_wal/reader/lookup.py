"""Rows by their primary keys, from a table and its shards: no more is read than the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import booleans_of, flags_of
from lancekit._format import row_address
from lancekit._operations.mem_wal.reader.newest import NOWHERE
from lancekit._operations.mem_wal.reader.parts import FIRST_ID
from lancekit._operations.mem_wal.reader.sources import ReadSet
from lancekit._pipeline.keys.indexed import key_lookup
from lancekit._pipeline.keys.probe import KeyTable
from lancekit._scan.expressions.nodes import applied
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, project
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import no_rows
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import Output
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan

__all__ = ["look_up"]


@dataclass(frozen=True, slots=True)
class _HasKey:
    """Tells of rows whether they have a key, which is the only one of a table."""

    keys: KeyTable

    def may_hold(self, place: int, least: pa.Array, greatest: pa.Array) -> npt.NDArray[np.bool_]:
        """Tell of blocks of rows whether one may have the key, by one of its columns."""
        key = self.keys.columns[place][0]
        may = pc.and_(pc.less_equal(least, key), pc.greater_equal(greatest, key))
        return flags_of(may) & flags_of(may.is_valid())

    def __call__(self, *columns: pa.Array) -> pa.BooleanArray:
        """Tell for each row whether it has the key."""
        rows, found = self.keys.find(0, columns[0])
        codes = np.full(len(columns[0]), -1)
        codes[rows] = found
        for place, values in enumerate(columns[1:], start=1):
            codes = self.keys.extend(codes, place, values)
        return booleans_of(codes >= 0)


def look_up(of: ReadSet, key: tuple[pa.Array, ...], outputs: tuple[Output, ...]) -> pa.Table:
    """Return the row of a key, or none.

    Parameters
    ----------
    key
        One value for each column of the primary key, of the column's type.
    """
    request = ScanRequest(outputs=outputs)
    newest = of.newest
    if newest is not None:
        rows, addresses = newest.find(key)
        if len(rows):
            return _row_at(of, addresses[0], request)
    keys = KeyTable(of.keys, key)
    schema = pa.schema(zip(of.keys, (column.type for column in key), strict=True))
    test = applied(_HasKey(keys), schema)
    wanted = Predicate(source="true", expr=test, schema=schema, columns=frozenset(of.keys))
    return Scan(
        read=Read(fragment_sources(of.base), lookup=key_lookup(of.base, keys)),
        request=replace(request, predicate=wanted),
        limit=1,
    ).to_table()


def _row_at(of: ReadSet, address: np.uint64, request: ScanRequest) -> pa.Table:
    if address == NOWHERE:
        return no_rows(request.schema)
    id_, offset = row_address.parts(int(address))
    part = of.parts[id_ - FIRST_ID]
    reader = FragmentReader(part.seen(id_ - FIRST_ID, of.base.line.open_files))
    if offset in reader.deleted:
        return no_rows(request.schema)
    return project(reader, request.outputs, np.array([offset]))
