"""What an operation did.  Results answer to the keys that pylance's dictionaries have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from lancekit._display import Displayed
from lancekit._lazy import cached_property
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine import EngineName
from lancekit._versions.branch_location import BranchLocation

if TYPE_CHECKING:
    from lancekit._pipeline.merge_strategy import MatchPlan


class Counts(Displayed, dict[str, int]):
    """A result that is the dictionary of counts that pylance returns, and tells more."""

    _keys: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.update({key: int(getattr(self, key)) for key in self._keys})

    def _plain(self) -> str:
        return f"{type(self).__name__}({dict(self)})"

    def __getstate__(self) -> dict[str, object]:
        # what is sent elsewhere tells what was done, and needs no store
        return {**self.__dict__, "location": None}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountsOfCells(Counts):
    """Counts of rows, and of the values that changed in updated rows.

    Files that a fast-forward links are not read, so their values are counted when somebody asks.
    """

    #: the number, or the function that counts; None in a copy, which has no store
    _cells: int | Callable[[], int] | None = field(default=0, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self._cells, int):
            self["num_changed_cells"] = self._cells

    @cached_property
    def num_changed_cells(self) -> int | None:
        """Number of values that changed in updated rows.

        Values of new columns do not count, nor do values that a cast converts.  After a
        fast-forward the first call reads and compares the rows; ``None`` in a copy of the object
        that was sent to another process without a count.
        """
        if callable(self._cells):
            self["num_changed_cells"] = self._cells()
        return self.get("num_changed_cells")

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_cells": self.get("num_changed_cells")}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Landed(Counts):
    """What all operations tell of the version that came of them."""

    version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    engine: EngineName = "local"
    location: BranchLocation | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeleteResult(_Landed):
    """What a delete did: rows, the version that came of it, and how.

    `duration` is in seconds, `engine` is where the work ran, `attempts` counts executions: more
    than one means that other writers landed meanwhile.  `line` is where the version was committed.
    """

    _keys = ("num_deleted_rows",)
    num_deleted_rows: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MergeResult(_Landed):
    """What a merge-insert did.

    `num_skipped_rows` are those of the source that were left out because another had their key
    (``None`` where Spark's join left them out, which does not tell), and `match` tells how the keys
    were found.  `key_guard` says how inserted keys are guarded against a concurrent merge:
    ``"bloom"``, ``"exact"``, or ``None`` where no new key can come in.
    """

    _keys = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    num_skipped_rows: int | None = 0
    match: MatchPlan | None = None
    on: tuple[str, ...]
    read_version: int
    key_guard: str | None = None
    fragments_added: int = 0
    fragments_changed: int = 0
    fragments_removed: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class MergedShard:
    """A shard, and the generations of it that were merged, ascending."""

    shard: UUID
    generations: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MemWalMergeResult(_Landed):
    """What a merge of generations into the table did.

    `num_quarantined_rows` were set aside: the table refuses them, or they follow such a row of the
    same key.  `num_skipped_generations` were merged by someone else meanwhile.  `commits` counts
    versions: `version` is `read_version` where there was nothing to merge.  `waiting` counts the
    rows that no version has afterwards.
    """

    _keys = (
        "num_inserted_rows",
        "num_updated_rows",
        "num_deleted_rows",
        "num_merged_generations",
        "num_quarantined_rows",
    )
    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    num_merged_generations: int
    num_quarantined_rows: int = 0
    num_skipped_generations: int = 0
    shards: tuple[MergedShard, ...] = ()
    commits: int = 0
    attempts: int = 0
    read_version: int
    waiting: WaitingRows = field(default_factory=WaitingRows)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UpdateResult(_Landed):
    """What an update did; fields as in `DeleteResult`."""

    _keys = ("num_rows_updated",)
    num_rows_updated: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MergedChanges(CountsOfCells):
    """What becomes of the changes of another side, done or planned: see `ApplyResult`."""

    doing: str
    how: str
    num_inserted_rows: int = 0
    num_updated_rows: int = 0
    num_deleted_rows: int = 0
    num_conflicts: int = 0
    columns_added: tuple[str, ...] = ()
    columns_dropped: tuple[str, ...] = ()
    columns_renamed: tuple[tuple[str, str], ...] = ()
    columns_cast: tuple[str, ...] = ()
    columns_altered: tuple[str, ...] = ()
    base: tuple[str, int]
    theirs: tuple[str, int]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ApplyResult(MergedChanges):
    """What became of the changes of another side: of a diff, a version or a branch.

    `doing` is what was called, `theirs` the (branch, version) whose changes came, `base` that from
    which they were counted.  `num_conflicts` are the rows that both sides had changed, and that
    were settled.  `columns_added`, `columns_dropped` and `columns_cast` name columns of the target,
    `columns_renamed` has pairs of the old name and the new one, `columns_altered` the columns that
    take nulls or no nulls from now on, or have other metadata.  Values of new columns are no
    updated rows; `num_changed_cells` counts the values that changed in updated rows.  `version` is
    `read_version` where there was nothing to do, and `how` says it: ``"three-way"``,
    ``"fast-forward"`` or ``"nothing to do"``.  A merge may make a version that changes no row, and
    records what it contains.
    """

    _keys = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    version: int
    read_version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    location: BranchLocation | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactionMetrics(Displayed):
    """What a compaction did: fragments and files, and the version that came of it.

    `files_removed` counts deletion files too; the files themselves stay until a cleanup.
    `left_to_indices` names, for each index, the fragments that were left alone because it covers
    them.  `version` equals `read_version` if there was nothing to do.
    """

    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int
    deleted_rows_removed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    left_to_indices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    version: int
    read_version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    engine: EngineName = "local"

    def _plain(self) -> str:
        return (
            f"CompactionMetrics(fragments_removed={self.fragments_removed}, "
            f"fragments_added={self.fragments_added}, files_removed={self.files_removed}, "
            f"files_added={self.files_added})"
        )
