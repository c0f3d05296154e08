"""Pages of rows in storage order, filtered or sorted, and the metadata that an explorer reads.

Filters and sorts cover all rows of a version, never a sample.  One pass reads the filter's columns
and the sort column.  It keeps the ids of the page's rows, and for a sort the ids of earlier pages.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.diff import SchemaChanges, schema_changes
from lancekit._api.history import Version
from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.names import MAIN
from lancekit._format.paths import show_path
from lancekit._lazy import cached_property
from lancekit._legible import shown
from lancekit._notebook.cards.common import REFS_READ
from lancekit._notebook.explorer.state import Event, ExplorerState, Place
from lancekit._operations.explain.explanation import Reads
from lancekit._operations.lineage.columns import fragments_apart
from lancekit._scan.order_by import ColumnOrdering, sorted_table
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError
from lancekit.options import options

#: a read of more bytes than this needs the user's confirmation
CONFIRM_ABOVE = 1 << 28
#: rows that are collected before they are sorted into the top rows
_SORT_BATCH = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of rows, with the total number of rows, and the rows and seconds its read took."""

    rows: pa.Table
    columns: int
    start: int
    total: int
    rows_read: int
    seconds: float


def read_page(
    handle: LanceDataset, state: ExplorerState, cancelled: Callable[[], bool]
) -> Page | Reads | None:
    """Return the page of a state; ``None`` if ``cancelled`` returns True during the read.

    For a read above `CONFIRM_ABOVE` that the user has not confirmed, return its expected size.

    Raises ColumnNotFoundError, PredicateError: unknown column, or invalid filter.
    Raises InvalidArgumentError: values of the column's type have no order.
    """
    began = time.perf_counter()
    names = _names(handle, state)
    paths = [show_path([name]) for name in names]
    rows = total = handle.count_rows()
    if state.is_plain:
        page = handle.to_table(columns=paths, limit=state.page_rows, offset=state.start)
        rows_read = page.num_rows
    else:
        reads = _reads(handle, state)
        if reads.bytes > CONFIRM_ABOVE and not state.is_confirmed:
            return reads
        found = _matching(handle, state, cancelled)
        if found is None:
            return None
        ids, total = found
        page, rows_read = handle._take_rows(ak.combine_chunks(ids), paths), rows
    return Page(
        rows=page,
        columns=len(handle._snapshot.manifest.schema.fields),
        start=state.start,
        total=total,
        rows_read=rows_read,
        seconds=time.perf_counter() - began,
    )


def _names(handle: LanceDataset, state: ExplorerState) -> list[str]:
    """Return the columns of the page: the first ones, and always the sort column."""
    known = handle._snapshot.manifest.schema.names
    first = known[: options.display_columns]
    if state.order is None:
        return first
    name = state.order[0]
    if name not in known:
        raise ColumnNotFoundError(
            f"Version {handle.version} has no column {shown(name)}.", column=name
        )
    return first if name in first else [name, *first[:-1]]


def _reads(handle: LanceDataset, state: ExplorerState) -> Reads:
    explanation = handle.scanner(columns=_key(state), filter=state.filter or None).explain()
    return explanation.reads or Reads(columns=(), rows=0, fragments=0, all_fragments=0, bytes=0)


def _key(state: ExplorerState) -> list[str]:
    return [] if state.order is None else [show_path([state.order[0]])]


def _matching(
    handle: LanceDataset, state: ExplorerState, cancelled: Callable[[], bool]
) -> tuple[pa.ChunkedArray, int] | None:
    """Return the row ids of a page and the number of matching rows, from a scan of all rows."""
    last, total = state.start + state.page_rows, 0
    collector = _RowRange(state.start, last) if state.order is None else _TopK(last, state.order)
    condition, key = state.filter or None, _key(state)
    scanned = handle.to_batches(key, filter=condition, with_row_id=True, batch_size=1 << 14)
    for batch in scanned:
        if cancelled():
            return None
        collector.add(batch, total)
        total += batch.num_rows
    ids = collector.ids()
    return ids.slice(state.start) if state.order is not None else ids, total


class _RowRange:
    """Collects the ids of the rows in a range of positions."""

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._ids = [pa.array([], pa.uint64())]

    def add(self, batch: pa.RecordBatch, before: int) -> None:
        start = max(self._first - before, 0)
        if before < self._last and start < batch.num_rows:
            self._ids.append(batch.column("_rowid").slice(start, self._last - before - start))

    def ids(self) -> pa.ChunkedArray:
        return pa.chunked_array(self._ids)


class _TopK:
    """Collects the ids of the top-k rows in a sort order."""

    def __init__(self, most: int, order: tuple[str, bool]) -> None:
        self._most = most
        self._order = [ColumnOrdering("key", ascending=order[1])]
        self._name = order[0]
        self._parts: list[pa.Table] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch, _before: int) -> None:
        columns = [batch.column(0), batch.column("_rowid")]
        self._parts.append(pa.table(columns, names=["key", "id"]))
        self._rows += batch.num_rows
        if self._rows > self._most + _SORT_BATCH:
            self._sort()

    def _sort(self) -> None:
        try:
            top = sorted_table(pa.concat_tables(self._parts), self._order)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            kind = self._parts[0].column("key").type
            raise InvalidArgumentError(
                f"Column {shown(self._name)} cannot be sorted: {shown(str(kind))} has no order.",
                hint="Sort by another column.",
                column=self._name,
            ) from error
        self._parts = [top.slice(0, self._most)]
        self._rows = self._parts[0].num_rows

    def ids(self) -> pa.ChunkedArray:
        if not self._parts:
            return pa.chunked_array([pa.array([], pa.uint64())])
        self._sort()
        return self._parts[0].column("id")


# ---- metadata of a dataset: manifests, tags and branch names, but no rows

#: number of cached handles: the selected version, the one it is compared with, and neighbours
_CACHED_HANDLES = 16


@dataclass(frozen=True)
class Stop:
    """A selectable version: its handle and its tags (``None`` if there are too many to read)."""

    handle: LanceDataset
    tags: tuple[str, ...] | None

    @cached_property
    def version(self) -> Version:
        """The version's metadata from its manifest."""
        return self.handle.get_version()

    @property
    def place(self) -> Place:
        """The branch and the version number."""
        return self.handle.branch, self.handle.version


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDiff:
    """Differences of two versions according to their manifests; numbers are new minus old."""

    old: Stop
    rows: int
    bytes: int
    columns: int
    fragments_added: int
    fragments_removed: int
    fragments_changed: int
    schema: SchemaChanges


def manifest_diff(old: Stop, new: Stop) -> ManifestDiff:
    """Return the differences between the manifests of two versions; no rows are read."""
    before, after = fragments_apart(old.handle._snapshot, new.handle._snapshot)
    mine = old.handle._snapshot.manifest.fragments.ids[before]
    theirs = new.handle._snapshot.manifest.fragments.ids[after]
    both = len({*mine.tolist()} & {*theirs.tolist()})
    return ManifestDiff(
        old=old,
        rows=new.version.num_rows - old.version.num_rows,
        bytes=new.version.total_bytes - old.version.total_bytes,
        columns=new.version.num_columns - old.version.num_columns,
        fragments_added=len(theirs) - both,
        fragments_removed=len(mine) - both,
        fragments_changed=both,
        schema=schema_changes(old.handle, new.handle),
    )


class Reader:
    """Reads versions of a dataset by branch and number; recent handles are cached."""

    def __init__(self, ds: LanceDataset) -> None:
        self._base = copy(ds)
        self.home = ds.branch
        self._base._scan_defaults = {}  # a default filter would make the row counts wrong
        self.forget()

    def forget(self) -> None:
        """Drop cached handles, and reload the lists of branches and tags."""
        self.handle = lru_cache(_CACHED_HANDLES)(self.fresh)
        self.branches = (MAIN, *self._base.branches.names())
        self.tags: Mapping[str, Place] | None = self._tags()

    def _tags(self) -> Mapping[str, Place] | None:
        _, pairs = self._base.tags._names_and_refs(REFS_READ)
        if pairs is None:
            return None
        return {name: (tag["branch"] or MAIN, tag["version"]) for name, tag in pairs}

    def fresh(self, place: Place) -> LanceDataset:
        """Return a new handle, which the caller can move; `handle` returns a cached one instead.

        Raises VersionNotFoundError, BranchNotFoundError: the version or branch was removed.
        """
        return self._base.checkout_version(place)

    def stop(self, place: Place) -> Stop:
        """Return a version with its cached handle and its tags.

        Raises VersionNotFoundError, BranchNotFoundError: the version or branch was removed.
        """
        tags = self.tags
        at = None if tags is None else tuple(sorted(n for n, to in tags.items() if to == place))
        return Stop(self.handle(place), at)

    def selection_event(self, branch: str, version: int | None = None) -> Event:
        """List a branch, and return the event that selects a version, by default the newest."""
        versions = self._versions(branch)
        return lambda state: state.switch(branch, versions, version)

    def newest(self, branch: str) -> int:
        """Return the newest version number of a branch, read from storage."""
        return self._base.checkout_version((branch, None)).version

    def _versions(self, branch: str) -> tuple[int, ...]:
        there = branch == self.home
        at = self._base if there else self._base.checkout_version((branch, None))
        return at.versions().numbers

    def start(self, page_rows: int) -> ExplorerState:
        """Return the initial state of an explorer, at the handle's version."""
        branch, versions = self.home, self._versions(self.home)
        there = bisect_right(versions, self._base.version)  # a cleanup can have removed it
        return ExplorerState(
            branch=branch,
            versions=versions,
            version=versions[max(there - 1, 0)],
            home=branch,
            page_rows=page_rows,
        )
