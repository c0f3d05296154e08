"""Results of operations.  They are dictionaries with the keys of pylance's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol
from uuid import UUID

from lancekit._display import TEXT, Displayed
from lancekit._lazy import cached_property
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine import EngineName
from lancekit._versions.branch_location import BranchLocation
from lancekit.errors import NotFoundError

if TYPE_CHECKING:
    from lancekit._pipeline.merge_strategy import MatchPlan


class _Printer(Protocol):
    def text(self, obj: str) -> object: ...


class Counts(Displayed, dict[str, int]):
    """Result that is pylance's dictionary of counts, with more attributes."""

    _keys: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.update({key: int(getattr(self, key)) for key in self._keys})

    def __missing__(self, key: object) -> NoReturn:
        raise NotFoundError(
            f"{type(self).__name__} has no {key!r}.", hint=f"It has {', '.join(self)}.", key=key
        )

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """Show the whole card in IPython, which otherwise takes the `repr` of a dictionary."""
        del cycle
        printer.text(self._drawn(TEXT)[TEXT])

    def _plain(self) -> str:
        return f"{type(self).__name__}({dict(self)})"

    def __getstate__(self) -> dict[str, object]:
        # a copy for another process has no store
        return {**self.__dict__, "location": None}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CountsOfCells(Counts):
    """Counts of rows, and of the values that changed in updated rows.

    A fast-forward links files without reading them, so it counts values at the first access.
    """

    #: the number, or the function that counts; None in a copy, which has no store to read
    _cells: int | Callable[[], int] | None = field(default=0, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self._cells, int):
            self["num_changed_cells"] = self._cells

    @cached_property
    def num_changed_cells(self) -> int | None:
        """Number of values that changed in updated rows.

        Values of new columns do not count, nor do values that a cast converts.  After a
        fast-forward the first access reads and compares the rows.  A copy that was sent to another
        process before the values were counted has ``None``.
        """
        if callable(self._cells):
            self["num_changed_cells"] = self._cells()
        return self.get("num_changed_cells")

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_cells": self.get("num_changed_cells")}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Landed(Counts):
    """Result with the version that an operation committed."""

    _in_line = True
    version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    engine: EngineName = "local"
    location: BranchLocation | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeleteResult(_Landed):
    """Result of a delete: the number of rows, and the committed version.

    `duration` is in seconds, `engine` ran the work, and `location` is the branch of the version.
    `attempts` is more than 1 if the delete was retried after a conflict.
    """

    _keys = ("num_deleted_rows",)
    num_deleted_rows: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MergeResult(_Landed):
    """Result of a merge-insert.

    `num_skipped_rows` counts source rows that were left out because another source row has their
    key; ``None`` if Spark's join left them out uncounted.  `match` is the plan that matched keys.
    `key_guard` is the kind of filter that guards added keys against concurrent merges:
    ``"bloom"``, ``"exact"``, or ``None`` if the merge can add no key.  `columns_added` are the new
    columns of the source that ``schema_mode="merge"`` added.
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
    columns_added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedShard:
    """A shard and its merged generations, in ascending order."""

    shard: UUID
    generations: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MemWalMergeResult(_Landed):
    """Result of a merge of generations into the table.

    `num_quarantined_rows` were set aside, because the table refuses them, or because they follow a
    refused row with the same key.  `num_skipped_generations` were merged by another process
    meanwhile.  `commits` is the number of new versions; if it is 0, `version` is `read_version`.
    `waiting` counts the rows that are still in no version.
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
    """Result of an update; attributes as in `DeleteResult`."""

    _keys = ("num_rows_updated",)
    num_rows_updated: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MergedChanges(CountsOfCells):
    """Changes of another side and their application, planned or done: see `ApplyResult`."""

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
    """Result of applying the changes of another side: of a diff, a version or a branch.

    `doing` is the name of the call.  `base` and `theirs` are each a (branch, version): the changes
    from `base` to `theirs` were applied.  `how` is ``"three-way"``, ``"fast-forward"`` or
    ``"nothing to do"``; in the last case, `version` is `read_version`.  `num_conflicts` counts the
    rows with resolved conflicts, `num_changed_cells` the changed values in updated rows.  A row
    whose changes are only in new columns is not updated.  The columns are columns of the target:
    `columns_renamed` has (old name, new name), `columns_altered` new nullability or metadata.  A
    merge may commit a version that changes no row, to record the versions that it contains.
    """

    _keys = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")
    _in_line = True
    version: int
    read_version: int
    branch: str | None = None
    attempts: int = 1
    duration: float = 0.0
    location: BranchLocation | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactionMetrics(Displayed):
    """Result of a compaction: counts of fragments and files, and the committed version.

    `files_removed` includes deletion files; the files themselves stay until a cleanup.
    `left_to_indices` has, by index, the fragments that were not compacted because the index covers
    them.  If there was nothing to do, `version` equals `read_version`.
    """

    _in_line = True
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
