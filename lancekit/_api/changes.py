"""`ChangeFeed`: what each commit did to the rows, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._api.diff import DatasetDiff, diff_of
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._lazy import cached_property
from lancekit._pipeline.engine.pandas_frames import exact_frame
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ChangeFeed", "ChangeStep"]

_VERSION = pa.field("_commit_version", pa.uint64(), False)
_TIME = pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), False)


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One step of a feed: what became of `old` in `new`.

    It is one commit, unless versions between them are gone: then it is what they did together, and
    `commits` says how many they were.
    """

    old: int
    new: int
    timestamp: datetime
    diff: DatasetDiff

    @property
    def commits(self) -> int:
        """How many commits the step is."""
        return self.new - self.old


@checked_methods
class ChangeFeed(Displayed):
    """The changes of rows since a version, step by step; `LanceDataset.changes` makes it.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://changes-example", primary_key="id")
    >>> _ = ds.delete("id = 1")
    >>> _ = ds.insert({"id": [3]}, mode="append")
    >>> feed = ds.changes(1).to_table()
    >>> list(zip(*(feed[c].to_pylist() for c in ("_change", "id", "_commit_version"))))
    [('delete', 1, 2), ('insert', 3, 3)]
    """

    def __init__(
        self,
        since: Snapshot,
        until: Snapshot,
        on: str | Sequence[str] | None,
        condition: str | pc.Expression | None,
        columns: Sequence[str] | None,
    ) -> None:
        if since.line != until.line or since.version > until.version:
            raise InvalidArgumentError(
                f"version {until.version} of {until.line.name} does not come after version "
                f"{since.version} of {since.line.name}.",
                hint="Changes are those of one branch, from an older version to a newer one; "
                "diff() compares any two.",
            )
        self._since = since
        self._until = until
        self._asked = (on, condition, columns)

    @cached_property
    def versions(self) -> list[int]:
        """The versions that are compared, each with the one before it."""
        first, last = self._since.version, self._until.version
        there = [v for v in list_versions(self._since.line).versions if first < v < last]
        return [first, *there, last] if first < last else [first]

    @cached_property
    def steps(self) -> list[ChangeStep]:
        """The commits, oldest first; no rows are read."""
        line, (on, condition, columns) = self._since.line, self._asked
        between = [load_snapshot(line, version) for version in self.versions[1:-1]]
        ends = [self._since, *between, self._until][: len(self.versions)]
        return [
            ChangeStep(
                old.version,
                new.version,
                new.manifest.timestamp,
                diff_of(old, new, on=on, condition=condition, columns=columns),
            )
            for old, new in pairwise(ends)
        ]

    @property
    def is_listed(self) -> bool:
        """Whether the versions in between were loaded already."""
        return "steps" in self.__dict__

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """The versions between which others are gone: their commits come as one step."""
        return [(old, new) for old, new in pairwise(self.versions) if new - old > 1]

    def to_batches(
        self, batch_size: int | None = None, *, names: Literal["lance", "delta"] = "lance"
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of each commit, oldest first; see `DatasetDiff.to_batches`.

        After the columns come ``_commit_version`` and ``_commit_timestamp``.  Commits that changed
        the columns give batches with the columns that they made.
        """
        return chain.from_iterable(
            (_stamped(batch, step) for batch in step.diff.to_batches(batch_size, names=names))
            for step in self.steps
        )

    def to_table(self, *, names: Literal["lance", "delta"] = "lance") -> pa.Table:
        """Return the changed rows of all commits.

        A column that a commit did not know yet, or no more, is null in its rows.

        Raises
        ------
        UnsupportedFeatureError
            A column had types that have nothing in common.
        """
        tables = [
            pa.Table.from_batches([_stamped(batch, step) for batch in table.to_batches()])
            for step in self.steps
            if (table := step.diff.to_table(names=names)).num_rows
        ]
        if tables:
            return _together(tables)
        none = diff_of(self._until, self._until, on=None, condition=None, columns=self._asked[2])
        empty = none.to_table(names=names).schema
        return pa.schema([*empty, _VERSION, _TIME]).empty_table()

    def to_pandas(self, *, names: Literal["lance", "delta"] = "lance") -> pd.DataFrame:
        """Return the changed rows of all commits as a pandas DataFrame."""
        return exact_frame(self.to_table(names=names), {})

    def _plain(self) -> str:
        return f"ChangeFeed(version {self._since.version} to {self._until.version})"


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise UnsupportedFeatureError(
            f"The rows of all commits make no one table, for a column changed its type: {error}.",
            hint="to_batches() and steps have the rows of each commit with the types that it had; "
            "changes(columns=[...]) leaves columns out.",
        ) from error


def _stamped(batch: pa.RecordBatch, step: ChangeStep) -> pa.RecordBatch:
    rows = batch.num_rows
    return batch.append_column(
        _VERSION, pa.repeat(pa.scalar(step.new, _VERSION.type), rows)
    ).append_column(_TIME, pa.repeat(pa.scalar(step.timestamp, _TIME.type), rows))
