"""`DatasetDiff`: the changes between two versions, row by row and value by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.diff_rows import ChangedRow, DiffRows, labels_of
from lancekit._api.hinting import hinting_operators
from lancekit._api.scanner import scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked, checked_methods
from lancekit._display import Displayed, Hinting
from lancekit._format.extensions import resolved, resolved_schema
from lancekit._lazy import cached_property
from lancekit._operations.lineage.changed import Changed, commit_ends, merge_rules
from lancekit._operations.lineage.conflicts import Resolve
from lancekit._operations.lineage.contained_columns import known_columns
from lancekit._operations.lineage.diff_plan import DiffPlan, plan_diff
from lancekit._operations.lineage.three_way_plan import By
from lancekit._picture import Picture, draw
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.row_values import read_changed
from lancekit._pipeline.engine import choose_engine, spark_engine
from lancekit._pipeline.frames import exact_frame, polars_frame
from lancekit._scan.expressions.objects import Filter
from lancekit._scan.fragment_rows import default_batch_rows
from lancekit._scan.fragments.rebatch import combined
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lancekit._operations.common.results import ApplyResult
    from lancekit._operations.explain.explanation import Explanation


@dataclass(frozen=True, slots=True)
class DiffCounts(Hinting):
    """The numbers of changed and unchanged rows; ``dict(counts)`` has them by name.

    Attributes
    ----------
    inserted, deleted, updated
        Rows of the new side alone, rows of the old side alone, and rows with different values.
    unchanged
        Rows of both sides with the same values.
    moved
        The unchanged rows with a new row address.
    ambiguous
        The inserted and deleted rows whose key occurs more than once on a side.
    """

    inserted: int
    deleted: int
    updated: int
    unchanged: int
    moved: int
    ambiguous: int

    def keys(self) -> list[str]:
        """Return the names of the counts."""
        return [field.name for field in fields(self)]

    def __getitem__(self, name: str) -> int:
        return int(asdict(self)[name])


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """The changed columns; `renamed` has (old, new) names, `cast` (name, old type, new type)."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    cast: tuple[tuple[str, pa.DataType, pa.DataType], ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


@hinting_operators("__iter__ __getitem__ __array__ __enter__ __exit__")
@checked_methods
class DatasetDiff(Displayed):
    """The difference between two versions; `LanceDataset.diff` makes it, without reading rows.

    The rows are compared once, when a result first needs them.  The card compares them if that
    reads at most 256 MiB and takes a second (8 MiB in an object store); `compute` always does.

    Examples
    --------
    >>> import lancekit as lk
    >>> rows = {"id": [1, 2, 3], "v": ["a", "b", "c"]}
    >>> ds = lk.write_dataset(rows, "memory://diff-example", primary_key="id")
    >>> _ = ds.merge_insert("id").when_matched_update_all().execute({"id": [2], "v": ["B"]})
    >>> _ = ds.delete("id = 3")
    >>> d = ds.diff(1)
    >>> d.counts.updated, d.counts.deleted, d.columns
    (1, 1, {'id': 0, 'v': 1})
    >>> d.to_table().to_pylist()[1]
    {'_change': 'update_before', 'id': 2, 'v': 'b'}
    """

    def __init__(self, plan: DiffPlan) -> None:
        self._plan = plan
        self._rows = DiffRows(plan)
        #: the same diff without blobs, if a card compared it
        self._light: DatasetDiff | None = None

    @property
    def old(self) -> tuple[str, int]:
        """The branch and the version of the old side."""
        return self._plan.old.reference

    @property
    def new(self) -> tuple[str, int]:
        """The branch and the version of the new side."""
        return self._plan.new.reference

    @property
    def matched_by(self) -> str:
        """The method that matches rows of both sides.

        ``"key"``, ``"row ids"``, ``"row ids, then key"`` or ``"whole rows"``.
        """
        return self._plan.matched_by

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns; empty if there is no key."""
        return self._plan.key

    @property
    def is_compared(self) -> bool:
        """True if the rows have been compared already."""
        return self._rows.is_compared

    def compute(self) -> DatasetDiff:
        """Compare the rows, however many there are, so that the card shows them.

        Returns
        -------
        DatasetDiff
            This diff.

        Raises
        ------
        UnsupportedFeatureError
            Arrow cannot cast between the types that a column has on both sides.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://diff-compute", primary_key="id")
        >>> _ = ds.insert({"id": [2]})
        >>> ds.diff(1).compute().is_compared
        True
        """
        _ = self.counts
        return self

    def __len__(self) -> int:
        """Return the number of changed rows, which are compared first."""
        return self.counts.inserted + self.counts.deleted + self.counts.updated

    def __bool__(self) -> bool:
        """Return True if rows or columns differ."""
        return bool(self.schema) or len(self) > 0

    @cached_property
    def counts(self) -> DiffCounts:
        """The numbers of inserted, deleted, updated and unchanged rows."""
        found = self._rows.changes
        deleted, updated = len(found.deleted), len(found.updated[0])
        return DiffCounts(
            inserted=len(found.inserted),
            deleted=deleted,
            updated=updated,
            unchanged=self._rows_before() - deleted - updated,
            moved=found.moved,
            ambiguous=found.ambiguous,
        )

    def _rows_before(self) -> int:
        plan = self._plan
        if plan.condition is None:
            return plan.old.manifest.num_rows
        return scan_of(plan.old, ScanArguments(filter=plan.condition)).count_rows()

    @property
    def columns(self) -> dict[str, int]:
        """The number of differing values of each column in the updated rows."""
        return dict(self._rows.changes.cells)

    @cached_property
    def schema(self) -> SchemaChanges:
        """The columns that were added, dropped, renamed and cast."""
        return _schema_changes(self._plan.columns, [field.name for field in self._rows.gone])

    # ---- rows

    def to_batches(
        self, batch_size: int | None = None, *, names: Literal["lance", "delta"] = "lance"
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows: deleted rows, inserted rows, and updated rows before and after.

        Parameters
        ----------
        batch_size
            The most rows of a batch, by default as many as in a scan.
        names
            The labels: ``"lance"`` for ``_change`` with ``delete``, ``insert``, ``update_before``,
            ``update_after``; ``"delta"`` for the names of Delta's change feed.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            ``_change`` first, or Delta's ``_change_type``, then the columns.

        Raises
        ------
        InvalidArgumentError
            ``batch_size`` is less than 1, or ``names`` is unknown.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://diff-batches-example", primary_key="id")
        >>> _ = ds.insert({"id": [2]})
        >>> [batch.to_pylist() for batch in ds.diff(1).to_batches()]
        [[{'_change': 'insert', 'id': 2}]]
        """
        given = default_batch_rows() if batch_size is None else batch_size
        rows = check_count("batch_size", given, least=1)
        tables = self._rows.tables(labels_of(names), rows)
        return chain.from_iterable(_batches(table, rows) for table in tables)

    def to_table(self, *, names: Literal["lance", "delta"] = "lance") -> pa.Table:
        """Return the changed rows; see `to_batches`."""
        schema = self._rows.schema(labels_of(names))
        return pa.Table.from_batches(self.to_batches(names=names), resolved_schema(schema))

    def to_pandas(self, *, names: Literal["lance", "delta"] = "lance") -> pd.DataFrame:
        """Return the changed rows as a pandas DataFrame; see `to_batches`."""
        return exact_frame(self.to_table(names=names), {})

    def to_polars(self, *, names: Literal["lance", "delta"] = "lance") -> pl.DataFrame:
        """Return the changed rows as a Polars DataFrame; see `to_batches`."""
        return polars_frame(self.to_table(names=names))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_table().__arrow_c_stream__(requested_schema)

    def to_spark(self, *, names: Literal["lance", "delta"] = "lance") -> Any:
        """Return the changed rows as a Spark DataFrame, read on the executors; see `to_batches`.

        The rows are compared first.  Their values are read each time an action runs.

        Raises
        ------
        UnsupportedTypeError
            Spark has no type for a column.
        StorageError
            A side is in the memory of this process, where executors cannot read it.
        JavaNotFoundError, SessionError
            Spark cannot be started.
        """
        labels = labels_of(names)
        schema = resolved_schema(self._rows.schema(labels))
        return spark_engine().rows(read_changed, self._rows.tasks(labels), schema)

    def sample(self, n: int = 10) -> list[ChangedRow]:
        """Return some changed rows, updated ones first, each with its differing values."""
        return self._rows.sample(check_count("n", n))

    def explain(self) -> Explanation:
        """Describe the comparison of the sides, and the skipped fragments; no rows are read."""
        return _explained(self._plan)

    def plot(self, *, ax: object = None) -> Picture:
        """Draw the numbers of changed rows, and of changed values by column.

        The rows are compared first, if they have not been yet.

        Parameters
        ----------
        ax
            matplotlib axes to draw on: one for the most changed columns, or three for the rows, a
            strip of all columns, and the most changed columns.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2], "v": [1, 2]}, "memory://plot-diff",
        ...                       primary_key="id")
        >>> _ = ds.update({"v": "v + 1"}, where="id = 1")
        >>> ds.diff(1).plot().alt.split(". ")[1]
        'Rows: 0 inserted, 0 deleted, 1 updated, 1 unchanged'
        """
        return draw("diff", self, ax=ax)

    def apply(self, handle: Handle, *, conflicts: Resolve = "fail", by: By = "cell") -> ApplyResult:
        """Apply the same changes to the handle's version, in one commit.

        Changes of the handle's version since the old side are preserved.  The handle moves.

        Parameters
        ----------
        handle
            A handle on a version that descends from the old side, or shares a key with it.
        conflicts
            The resolution for rows that both sides changed: ``"fail"`` raises, ``"ours"`` keeps the
            values of the handle's version, ``"theirs"`` takes the new side's values.  A function
            receives `Conflicts`, and returns the resulting rows, each with its key.
        by
            ``"cell"``: changes of different columns of a row are merged; ``"row"``: they conflict.

        Returns
        -------
        ApplyResult
            The numbers of inserted, updated and deleted rows.

        Raises
        ------
        MergeConflictError
            Both sides changed a row in different ways.
        InvalidArgumentError
            The diff has a filter or lacks columns, or there is no key that identifies rows.
        SchemaMismatchError
            The changes do not fit the columns.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://diff-apply", primary_key="id")
        >>> other = ds.create_branch("other")
        >>> _ = ds.delete("id = 1")
        >>> dict(ds.diff(1).apply(other))["num_deleted_rows"]
        1
        >>> other.to_table()["id"].to_pylist()
        [2]
        """
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.lineage.apply_changes import apply_changes

        plan = self._plan
        if plan.condition is not None or not plan.whole:
            raise InvalidArgumentError(
                "A diff of some rows or columns cannot be applied.",
                hint="Create the diff without filter= and columns=.",
            )
        on = plan.key if plan.matched_by == "key" else None
        how = merge_rules("apply", on, by, conflicts)
        change = Changed(base=plan.old, theirs=plan.new, properties=commit_ends(plan.old, plan.new))
        return handle._move(lambda ours: apply_changes(ours, lambda _: change, how, RetryPolicy()))

    def _plain(self) -> str:
        return f"DatasetDiff({self._plan.old.called} to {self._plan.new.called})"


def _batches(table: pa.Table, rows: int) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = resolved(combined(table)).to_batches(min(rows, len(table)))
    return found


@checked
def diff(
    old: Handle,
    new: Handle,
    *,
    on: str | Sequence[str] | None = None,
    filter: Filter | None = None,  # noqa: A002
    columns: Sequence[str] | None = None,
) -> DatasetDiff:
    """Compare the versions of two handles, of one dataset or of two.

    Parameters
    ----------
    old, new
        The handles; their versions are compared.
    on, filter, columns
        As in `LanceDataset.diff`.

    Returns
    -------
    DatasetDiff
        The difference; the rows are compared when a result needs them.

    Raises
    ------
    ColumnNotFoundError, PredicateError, InvalidArgumentError
        As in `LanceDataset.diff`.

    Examples
    --------
    >>> import lancekit as lk
    >>> one = lk.write_dataset({"id": [1, 2], "v": ["a", "b"]}, "memory://diff-one")
    >>> other = lk.write_dataset({"id": [2, 3], "v": ["B", "c"]}, "memory://diff-other")
    >>> dict(lk.diff(one, other, on="id").counts)["updated"]
    1
    """
    return diff_of(old._snapshot, new._snapshot, on=on, condition=filter, columns=columns)


def diff_of(
    old: Snapshot,
    new: Snapshot,
    *,
    on: str | Sequence[str] | None,
    condition: Filter | None,
    columns: Sequence[str] | None,
) -> DatasetDiff:
    """Compare two versions, with the options of `LanceDataset.diff`."""
    key = [on] if isinstance(on, str) else on
    pairs = known_columns(old, new)
    plan = plan_diff(old, new, on=key, condition=condition, columns=columns, pairs=pairs)
    return DatasetDiff(plan)


def schema_changes(old: Handle, new: Handle) -> SchemaChanges:
    """Return the changed columns between two handles' versions; only manifests are read."""
    before, after = old._snapshot, new._snapshot
    fields = before.manifest.schema.fields
    if fields == after.manifest.schema.fields:  # fast also for a thousand columns
        return SchemaChanges()
    pairs = known_columns(before, after)
    kept = {pair.old.id for pair in pairs if pair.old is not None}
    return _schema_changes(pairs, [field.name for field in fields if field.id not in kept])


def _schema_changes(pairs: Sequence[ColumnPair], dropped: Sequence[str]) -> SchemaChanges:
    both = [(pair, pair.old) for pair in pairs if pair.old is not None]
    return SchemaChanges(
        added=tuple(pair.name for pair in pairs if pair.old is None),
        dropped=tuple(dropped),
        renamed=tuple((old.name, pair.name) for pair, old in both if old.name != pair.name),
        cast=tuple(
            (pair.name, kind, pair.kind)
            for pair, old in both
            if (kind := old.to_arrow().type) != pair.kind
        ),
    )


def _explained(plan: DiffPlan) -> Explanation:
    from lancekit._legible import plural
    from lancekit._operations.explain.explanation import explanation, reads

    parts = plan.shared
    apart = [*(pair.new for pair in parts.pairs), *parts.new]
    same, pairs = (plural(len(part), "fragment") for part in (parts.same, parts.pairs))
    others = plural(len(parts.old) + len(parts.new), "other fragment")
    return explanation(
        plan.new,
        "diff",
        choose_engine(plan.rows_apart),
        reads=reads(plan.new, (pair.name for pair in plan.columns), apart),
        notes=(
            f"{same} identical on both sides, {parts.rows:,} rows: not read" if parts.same else "",
            f"{pairs} with the same row addresses: changed files are read" if parts.pairs else "",
            f"{others}: rows are matched by {plan.matched_by}" if parts.old or parts.new else "",
            ""
            if plan.ancestor
            else "no common version is known: row ids of the two sides mean different rows",
        ),
    )
