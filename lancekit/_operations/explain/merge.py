"""Explanations and dry runs of merge-inserts: which rows they would insert, update or delete."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._format.extensions import resolved
from lancekit._format.field_marks import holds_blobs
from lancekit._format.paths import parse_path, top_of
from lancekit._legible import plural, python_rows, shown
from lancekit._operations.common.results import Counts, MergeResult
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explanation,
    reads,
    stored_bytes,
)
from lancekit._operations.explain.scans import read_node
from lancekit._operations.merge_insert import (
    check_columns,
    check_source,
    dry_merge,
    merge_rows,
    widened_target,
)
from lancekit._pipeline.engine import Choice
from lancekit._pipeline.merge_here import rewritten_columns
from lancekit._pipeline.merge_plan import Matched, MergeClauses, MergeWork, writes_rows
from lancekit._pipeline.merge_strategy import MatchPlan
from lancekit._pipeline.source import Source
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.read import Read
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

Addresses = npt.NDArray[np.int64]
#: runs a change on the current version of a handle, and moves the handle to the new version
Merge = Callable[[Snapshot], tuple[Snapshot, MergeResult]]
Land = Callable[[Merge], MergeResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """A value that an update would replace by another value, in the row with the key `key`."""

    key: tuple[Any, ...]
    column: str
    old: Any
    new: Any


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MergePlan(Counts):
    """A planned merge-insert of a version; `apply` executes it.

    The counts can be read by the keys of `MergeResult`.  The plan holds the source's rows until
    `apply` or `close`.

    Attributes
    ----------
    num_inserted_rows, num_updated_rows, num_deleted_rows
        The numbers of rows that would be inserted, updated and deleted.
    num_unchanged_rows
        Rows of the dataset that would not change.
    num_skipped_rows
        Unchanged rows that have a match, but do not satisfy the condition.
    num_ignored_rows
        Source rows without a match that are not inserted.
    num_duplicate_rows
        Source rows that are left out because other rows have their keys; ``None`` if Spark's join
        drops them uncounted.
    on, rules
        The key columns, and the action for each kind of row, in words.
    version, branch
        The version and branch that were read.
    changes
        Values that would be replaced, in the first few updated rows.
    inserted, deleted
        The first few inserted rows and deleted rows.
    match
        The strategy that matches keys.
    explanation
        The engine and the reason for it, the plan, and the amounts to read and to write.
    guarded
        Whether a concurrent merge that inserts one of the same keys would have to start over.
    """

    _keys: ClassVar[tuple[str, ...]] = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    num_unchanged_rows: int
    num_skipped_rows: int
    num_ignored_rows: int
    num_duplicate_rows: int | None
    on: tuple[str, ...]
    rules: tuple[str, ...]
    version: int
    branch: str | None
    changes: tuple[CellChange, ...]
    inserted: pa.Table
    deleted: pa.Table
    match: MatchPlan
    explanation: Explanation
    guarded: bool
    _pending: _Pending = field(repr=False)

    def apply(self) -> MergeResult:
        """Execute the merge on the newest version, and move the handle that the plan was made with.

        If the table has changed since, the same source is merged into the newest version, with the
        guarantees of `MergeInsertBuilder.execute`.  The counts may then differ from the plan.

        Raises
        ------
        InvalidArgumentError
            The plan was applied, or closed.
        """
        return self._pending.run()

    def close(self) -> None:
        """Release the source's rows; the counts and samples of the plan stay readable."""
        self._pending.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Pending:
    """The merge of a plan, until it is executed or closed."""

    def __init__(self, land: Land, source: Source, merge: Merge) -> None:
        self._land = land
        self._merge = merge
        self._over = ""
        self._release: Callable[[], object] = weakref.finalize(self, source.close)

    def run(self) -> MergeResult:
        if self._over:
            raise InvalidArgumentError(
                f"The plan was {self._over}.", hint="Create a new plan with preview()."
            )

        def change(snapshot: Snapshot) -> tuple[Snapshot, MergeResult]:
            return self._merge(latest_snapshot(snapshot.location))

        result = self._land(change)
        self._over = f"already applied, as version {result.version}"
        self._release()
        return result

    def close(self) -> None:
        self._over = self._over or "closed"
        self._release()

    def __reduce__(self) -> tuple[object, ...]:
        return _copied_plan, ()


def _copied_plan() -> _Pending:
    """Return the pending merge of a copied plan, which has no rows and cannot be applied."""
    pending = object.__new__(_Pending)
    pending._over, pending._release = "copied or unpickled", lambda: None
    return pending


def preview_merge(
    snapshot: Snapshot,
    source: Source,
    clauses: MergeClauses,
    policy: RetryPolicy,
    land: Land,
    choice: Choice,
    merge: Merge | None = None,
) -> MergePlan:
    """Plan a merge without writing anything; errors as in `merge_rows`.

    snapshot: the version to read.
    source: the rows, which the plan holds.
    clauses, policy: as in `merge_rows`.
    land: runs the merge when the plan is applied.
    choice: the engine of the source, and the reason.
    merge: the merge to run when the plan is applied; by default it merges the same rows.
    """
    pending = _Pending(
        land, source, merge or (lambda newest: merge_rows(newest, source, clauses, policy))
    )
    try:
        work = dry_merge(snapshot, source, clauses)
        wide = widened_target(snapshot, source.schema, clauses)
        return _plan(wide, source, clauses, choice, work, pending)
    except BaseException:
        pending.close()
        raise


def _plan(
    snapshot: Snapshot,
    source: Source,
    clauses: MergeClauses,
    choice: Choice,
    work: MergeWork,
    pending: _Pending,
) -> MergePlan:
    if work.match is None or work.examples is None:
        raise AssertionError("a dry merge has examples, and tells how keys were matched")
    sources = {s.fragment.id: s for s in fragment_sources(snapshot)}
    changed = work.updated + work.deleted
    new = ak.filter(work.examples, work.examples.column(ROW_ADDRESS).is_null())
    return MergePlan(
        num_inserted_rows=work.inserted,
        num_updated_rows=work.updated,
        num_deleted_rows=work.deleted,
        num_unchanged_rows=snapshot.manifest.num_rows - changed,
        num_skipped_rows=work.matched - work.updated if clauses.condition is not None else 0,
        num_ignored_rows=work.alone - work.inserted,
        num_duplicate_rows=work.skipped,
        on=clauses.shown_on,
        rules=in_words(clauses),
        version=snapshot.version,
        branch=snapshot.branch,
        changes=tuple(_changes(snapshot, sources, clauses, work.examples)),
        inserted=resolved(new.select(_sampled(snapshot))),
        deleted=_rows(snapshot, sources, np.asarray(work.deleted_examples, np.int64)),
        match=work.match,
        explanation=_explained(
            snapshot,
            source.schema,
            clauses,
            choice,
            work.match,
            rows=work.inserted + work.updated,
            touched=[sources[m.fragment_id] for m in work.marked],
        ),
        guarded=work.inserted_hashes is not None,
        _pending=pending,
    )


# ---- samples


def _sampled(snapshot: Snapshot) -> list[str]:
    """Return the columns of samples: all columns without blobs."""
    fields = snapshot.manifest.schema.fields
    return [f.name for f in fields if not any(holds_blobs(part.metadata) for part in f.walk())]


def _rows(
    snapshot: Snapshot, sources: Mapping[int, FragmentSource], addresses: Addresses
) -> pa.Table:
    """Read rows by their addresses, in ascending order."""
    names = _sampled(snapshot)
    tables = [
        FragmentReader(sources[id_]).read(names, offsets)
        for id_, offsets in row_address.by_fragment(addresses)
    ]
    schema = pa.schema(
        [f for f in blob_view(snapshot.manifest.schema).to_arrow() if f.name in names]
    )
    return resolved(pa.concat_tables(tables) if tables else schema.empty_table())


def _changes(
    snapshot: Snapshot,
    sources: Mapping[int, FragmentSource],
    clauses: MergeClauses,
    examples: pa.Table,
) -> Iterator[CellChange]:
    """Yield the values that differ between the first few updated rows and their old rows."""
    updated = ak.filter(examples, examples.column(ROW_ADDRESS).is_valid())
    order = np.argsort(updated.column(ROW_ADDRESS).to_numpy(), kind="stable")
    updated = taken(updated, order)
    addresses = updated.column(ROW_ADDRESS).to_numpy().astype(np.int64)
    old = _rows(snapshot, sources, addresses)
    new = resolved(updated.select(old.column_names))
    for before, after in zip(python_rows(old), python_rows(new), strict=True):
        key = tuple(_value(after, name) for name in clauses.shown_on)
        for name in old.column_names:
            if not _same(before[name], after[name]):
                yield CellChange(key=key, column=name, old=before[name], new=after[name])


def _value(row: Mapping[str, object], path: str) -> object:
    if path in row:
        return row[path]
    top, *rest = parse_path(path)
    found: Any = row[top]
    for name in rest:
        found = None if found is None else found[name]
    return found


def _same(old: object, new: object) -> bool:
    """Return True if two values are equal; NaN equals NaN."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[name], new[name]) for name in old)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    return bool(old == new) or bool(old != old and new != new)  # noqa: PLR0124  # both are no number


# ---- explanations of merge-inserts: the match strategy, the reads and the writes


def explain_merge(
    snapshot: Snapshot, source: Source, clauses: MergeClauses, choice: Choice
) -> Explanation:
    """Explain the merge of a source; reads the source's keys, and queries indices for them."""
    casts = check_source(snapshot, source, clauses)
    match = source.match(casts, clauses, snapshot)
    lookup = source.indices(casts, clauses, snapshot) if match.strategy == "index" else None
    read = None if lookup is None else Read(fragment_sources(snapshot), lookup=lookup)
    rows = match.source_rows if writes_rows(clauses) else 0
    return _explained(snapshot, source.schema, clauses, choice, match, rows=rows, read=read)


def explain_unknown_merge(
    snapshot: Snapshot, clauses: MergeClauses, schema: pa.Schema | None, choice: Choice
) -> Explanation:
    """Explain the merge of a source without its rows, by its schema if that is known."""
    if schema is None and clauses.rewrite_columns:
        raise InvalidArgumentError(
            "Without the columns of the source, the columns to rewrite are unknown.",
            hint="Pass the rows, or schema= with their columns.",
        )
    known = snapshot.manifest.schema.to_arrow() if schema is None else schema
    if not isinstance(known, pa.Schema):
        raise InvalidTypeError(f"schema must be a pyarrow Schema, got {shown(schema)}.")
    check_columns(snapshot.manifest.schema, known, clauses)
    return _explained(snapshot, known, clauses, choice)


def in_words(clauses: MergeClauses) -> tuple[str, ...]:
    """Return a phrase for the action on each kind of row."""
    if clauses.rules:
        return clauses.rules
    condition = f", where {clauses.condition}" if clauses.condition else ""
    selected = f", where {clauses.by_source}" if clauses.by_source else ""
    matched: Mapping[Matched, str] = {
        "keep": "",
        "update": f"matched rows are updated{condition}",
        "delete": "matched rows are deleted",
        "fail": "a matched row is an error",
    }
    texts = [
        matched[clauses.matched],
        "new rows are inserted" if clauses.insert else "",
        f"rows that the source lacks are deleted{selected}" if clauses.delete_by_source else "",
        f"of source rows with one key the {clauses.dedupe} is kept" if clauses.dedupe else "",
        f"of source rows with one key the row with the largest {clauses.dedupe_by} is kept"
        if clauses.dedupe_by
        else "",
    ]
    return tuple(filter(None, texts))


def _explained(
    snapshot: Snapshot,
    source: pa.Schema,
    clauses: MergeClauses,
    choice: Choice,
    match: MatchPlan | None = None,
    *,
    rows: int | None = None,
    touched: Sequence[FragmentSource] | None = None,
    read: Read | None = None,
) -> Explanation:
    """Return the explanation of a merge.

    source: the source's columns.
    match: the strategy that matches keys, if known.
    rows: the number of new rows, or an upper bound.
    touched: the fragments whose rows change, after a dry run.
    read: the rows to read after an index lookup, if indices were queried.
    """
    schema = snapshot.manifest.schema
    known = clauses.worked_from if clauses.by_address else clauses.on
    keys = [name if name in schema else top_of(name) for name in known]
    casts = check_columns(schema, source, clauses)
    condition = clauses.condition_on(casts.target, schema.to_arrow())
    fetched = [] if condition is None else [*condition.target]
    if clauses.rewrite_columns:
        columns = rewritten_columns([n for n in source.names if n in schema], clauses.on)
        fetched += columns
        whole = fragment_sources(snapshot) if touched is None else touched
        writes = Writes(
            what=f"files with {', '.join(columns)} for all rows of each fragment that has a "
            "match; row addresses do not change",
            rows=sum(s.fragment.num_rows for s in whole),
            bytes=stored_bytes(whole, schema, columns),
            exact=touched is not None,
        )
    else:
        if clauses.matched == "update":
            given = set(source.names)
            fetched += [name for name in schema.names if name not in given]
        writes = Writes(
            what="new rows in new files, and deletion files for removed rows"
            if writes_rows(clauses)
            else "deletion files for removed rows; no data file",
            rows=rows,
            bytes=None if rows is None else _size_of(snapshot, rows),
            exact=touched is not None,
        )
    others = [name for name in dict.fromkeys(fetched) if name not in keys]
    node = read_node(snapshot, keys, read)
    return explanation(
        snapshot,
        "merge_insert",
        Choice(choice.engine, f"{choice.why}; {match.why}" if match else choice.why),
        plan=_strategy_plan(snapshot, clauses, match, node, others),
        reads=node.reads,
        writes=writes,
        commits=["Update"],
        notes=[
            *in_words(clauses),
            "" if match else "how keys are matched depends on the number of source rows",
        ],
    )


def _strategy_plan(
    snapshot: Snapshot,
    clauses: MergeClauses,
    match: MatchPlan | None,
    keys: PlanNode,
    others: Sequence[str],
) -> PlanNode:
    """Return the plan nodes of a merge: match keys, fetch other columns, filter row pairs."""
    strategy = "" if match is None else f" ({match.strategy})"
    source = PlanNode("Source", "" if match is None else plural(match.source_rows, "row"))
    node = PlanNode("MatchKeys", ", ".join(clauses.on) + strategy, inputs=(source, keys))
    if others:
        most = None if match is None else match.source_rows
        node = PlanNode("Fetch", "at most", reads(snapshot, others, None, most), (node,))
    if clauses.condition and clauses.matched == "update":
        node = PlanNode("Filter", clauses.condition, inputs=(node,))
    return node


def _size_of(snapshot: Snapshot, rows: int) -> int | None:
    """Estimate the bytes of new rows from the average size of the existing rows."""
    manifest = snapshot.manifest
    if not manifest.num_rows:
        return None
    stored = sum(file.size_bytes for f in manifest.fragments for file in f.files)
    return round(stored * rows / manifest.num_rows)
