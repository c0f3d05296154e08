"""The values of rows of a version, by their addresses, as they are compared."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancekit.errors import UnsupportedFeatureError
from lancekit.file.kernels.widths import value_bytes
from lancekit.format.schema import LanceSchema
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.side import Addresses, Side
from lancekit.pipeline.diff.values import Digests, Seeds, digests
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["read_rows", "row_digests", "row_values", "rows_at_a_time", "seen"]

#: decoded bytes of the rows that are compared at a time
_HELD_BYTES = 64 << 20


def seen(snapshot: Snapshot) -> LanceSchema:
    """Return the columns of a version as they are compared: blobs as their bytes."""
    return blob_view(snapshot.manifest.schema, "all_binary")


def read_rows(snapshot: Snapshot, rows: Addresses, schema: LanceSchema | None = None) -> Side:
    """Return what reads some rows of a version, as they are compared or with another schema."""
    sources = fragment_sources(snapshot, seen(snapshot) if schema is None else schema)
    return Side((sources[place] for place in sources.with_addresses(rows).tolist()), None)


def rows_at_a_time(columns: Sequence[ColumnPair]) -> int:
    """Return of how many rows the values of columns are held."""
    width = sum(value_bytes(pair.kind) for pair in columns)
    return max(_HELD_BYTES // max(width, 8), 1)


def row_digests(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, seeds: Seeds, *, new: bool
) -> Digests:
    """Return digests of columns of rows, by which both sides' can be compared."""
    step = rows_at_a_time(columns)
    parts = (rows[start : start + step] for start in range(0, len(rows), step))
    return Digests.joined(
        [digests(row_values(columns, side, part, new=new), seeds) for part in parts]
    )


def row_values(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, *, new: bool
) -> list[pa.Array]:
    """Return columns of rows, of the types that they have on the new side."""
    fields = ((pair.name, pair.new if new else pair.old) for pair in columns)
    names = {name: field.name for name, field in fields if field is not None}
    table = side.read(list(names.values()), rows)
    return [
        _as_array(table[names[pair.name]], pair)
        if pair.name in names
        else pa.nulls(len(rows), pair.kind)
        for pair in columns
    ]


def _as_array(values: pa.ChunkedArray, pair: ColumnPair) -> pa.Array:
    if values.type != pair.kind:
        try:
            values = values.cast(pair.kind, safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedFeatureError(
                f"Column {pair.name!r} was {values.type} and is {pair.kind}: Arrow cannot make the "
                "one of the other, so that nobody can tell which values differ.",
                hint="Name the other columns in `columns`.",
                column=pair.name,
            ) from error
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], pair.kind)
