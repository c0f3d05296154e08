"""The newest row of each key in some generations: what a merge brings into the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lancekit import arrow_kernels as ak
from lancekit.format.deletions import to_bitmap
from lancekit.format.schema import LanceField, LanceSchema
from lancekit.pipeline.engine.engine import LocalRunner
from lancekit.pipeline.keys.source_keys import SourceKeys
from lancekit.scan.fragment_rows import ScanRequest, block_rows
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.scan.indexed.choice import RowChoice
from lancekit.scan.indexed.found import ChosenRows
from lancekit.scan.outputs import plan_columns
from lancekit.scan.scan import Scan
from lancekit.shards.schema import TOMBSTONE
from lancekit.versions.snapshot import Snapshot

__all__ = ["NewestRows", "newest_rows", "seen_in"]

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class _Chosen(RowChoice):
    """Chooses rows that are known, of fragments that are numbered."""

    offsets: tuple[BitMap, ...]

    def rows_of(self, source: FragmentSource) -> ChosenRows:
        return ChosenRows(self.offsets[source.fragment.id], True)


@dataclass(frozen=True)
class NewestRows:
    """Rows of generations, by the places where they are, and the keys of those that are deleted.

    Attributes
    ----------
    schema
        The table's, in whose columns the rows are read.
    sources, offsets
        The fragments of the generations, and which rows of each are the newest, and live.
    deleted
        The keys whose newest row says that they are deleted; no columns if there are no keys.
    """

    schema: LanceSchema
    sources: tuple[FragmentSource, ...]
    offsets: tuple[Offsets, ...]
    deleted: pa.Table

    @property
    def num_rows(self) -> int:
        """The number of rows that live."""
        return sum(map(len, self.offsets))

    def scan(self, table: Snapshot) -> Scan:
        """Return the live rows, in the order of the generations, as tasks read them."""
        numbered = tuple(
            replace(source, fragment=replace(source.fragment, id=number))
            for number, source in enumerate(self.sources)
        )
        request = ScanRequest(outputs=plan_columns(self.schema, self.schema.names))
        chosen = _Chosen(
            snapshot=table,
            asked=lambda: None,
            segments={},
            offsets=tuple(map(to_bitmap, self.offsets)),
        )
        return Scan(sources=numbered, request=request, choice=chosen)

    def reader(self) -> pa.RecordBatchReader:
        """Return the live rows, in the order of the generations; may be asked again."""
        return pa.RecordBatchReader.from_batches(self.schema.to_arrow(), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        names, schema = self.schema.names, self.schema.to_arrow()
        step = block_rows(self.schema, ScanRequest(outputs=plan_columns(self.schema, names)))
        for source, offsets in zip(self.sources, self.offsets, strict=True):
            reader = FragmentReader(source)
            for start in range(0, len(offsets), step):
                rows = reader.read(names, offsets[start : start + step])
                yield from pa.table(rows.columns, schema=schema).to_batches()


def newest_rows(generations: Sequence[Snapshot], schema: LanceSchema) -> NewestRows:
    """Find the newest row of each key.

    Columns go by the ids of their fields: what a generation lacks is null, and so is a column that
    the table got since.

    Parameters
    ----------
    generations
        Later ones hold newer rows; in each every key is once, or hidden.
    schema
        The table's.
    """
    keys = tuple(field.name for field in schema.primary_key)
    sources = [
        source
        for generation in generations
        for source in fragment_sources(generation, seen_in(schema, generation.manifest.schema))
    ]
    found = LocalRunner().map(_read_keys, [(source, keys) for source in sources])
    rows = pa.concat_tables([table for table, _ in found]) if found else _no_keys(schema, keys)
    newest = np.ones(rows.num_rows, bool)
    if keys:
        columns = [ak.combine_chunks(rows.column(name)) for name in keys]
        chosen = SourceKeys.choose(keys, columns, dedupe="last")
        newest = chosen.unmatched([])
    deleted = rows.column(TOMBSTONE).to_numpy()
    live, dead = newest & ~deleted, newest & deleted
    ends = np.cumsum([table.num_rows for table, _ in found])[:-1]
    offsets = [own[mask] for (_, own), mask in zip(found, np.split(live, ends), strict=bool(found))]
    return NewestRows(
        schema=schema,
        sources=tuple(sources),
        offsets=tuple(offsets),
        deleted=ak.filter(rows.select(list(keys)), pa.array(dead)),
    )


def seen_in(schema: LanceSchema, generation: LanceSchema) -> LanceSchema:
    """Return a table's columns as they are read in a generation, and the mark of deleted rows.

    The table may have given out the mark's id, which was free when the generation was written, to
    another column since: that one reads as null.
    """
    known = {f.id: f.logical_type for f in generation.walk() if f.name != TOMBSTONE}
    free = count(max(f.id for f in (*schema.walk(), *generation.walk())) + 1)

    def seen(field: LanceField, parent: int) -> LanceField:
        same = known.get(field.id) == field.logical_type
        own = field.id if same else next(free)
        children = tuple(seen(child, own) for child in field.children)
        return replace(field, id=own, parent_id=parent, children=children)

    marks = [f for f in generation.fields if f.name == TOMBSTONE]
    return replace(schema, fields=(*(seen(f, f.parent_id) for f in schema.fields), *marks))


def _no_keys(schema: LanceSchema, keys: Sequence[str]) -> pa.Table:
    empty = schema.to_arrow().empty_table().select(list(keys))
    return empty.append_column(TOMBSTONE, pa.array([], pa.bool_()))


def _read_keys(task: tuple[FragmentSource, tuple[str, ...]]) -> tuple[pa.Table, Offsets]:
    """Return the keys and marks of a fragment's visible rows, and their offsets."""
    source, keys = task
    reader = FragmentReader(source)
    offsets = np.arange(reader.physical_rows) if reader.live is None else reader.live
    if TOMBSTONE not in source.schema:
        none = pa.array(np.zeros(len(offsets), bool))
        return reader.read(keys, offsets).append_column(TOMBSTONE, none), offsets
    rows = reader.read([*keys, TOMBSTONE], offsets)
    marks = pc.fill_null(rows.column(TOMBSTONE), False)
    return rows.select(list(keys)).append_column(TOMBSTONE, marks), offsets
