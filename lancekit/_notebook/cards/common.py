"""What several cards say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from lancekit._format.names import MAIN
from lancekit._legible import code
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import (
    age,
    clean,
    count,
    is_relative,
    moment,
    place,
    plural,
    size,
)

if TYPE_CHECKING:
    from lancekit._api.history import Version
    from lancekit._api.lance_dataset import LanceDataset
    from lancekit._api.tags import Tags
    from lancekit._notebook.render.controls import Interactive
    from lancekit._operations.unmerged.waiting_rows import WaitingRows

#: more tags or branches than this are counted and not read: each is a file of its own
REFS_READ = 200
#: what a card says in the place of tags that it did not read
TOO_MANY_TAGS = "more than are read for a card"
#: names that one line lists
NAMES = 5

#: where work runs, in words
ENGINES = {"local": "in this process", "spark": "on Spark"}

#: an operation's word, and whether it leaves the rows as they are
OPERATIONS: dict[str, tuple[str, bool]] = {
    "Append": ("append", False),
    "Delete": ("delete", False),
    "Overwrite": ("overwrite", False),
    "CreateIndex": ("create index", True),
    "Rewrite": ("compact", True),
    "Merge": ("change columns", False),
    "Restore": ("restore", False),
    "ReserveFragments": ("reserve fragments", True),
    "Update": ("update", False),
    "Project": ("change schema", True),
    "UpdateConfig": ("change config", True),
    "DataReplacement": ("replace data", False),
    "UpdateMemWalState": ("flush memory", True),
    "Clone": ("clone", False),
    "UpdateBases": ("add base paths", True),
}


class Commit(Protocol):
    """What a version says of itself."""

    @property
    def version(self) -> int: ...
    @property
    def timestamp(self) -> datetime: ...
    @property
    def operation(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...


class ChangedRows(Protocol):
    """What a change says of the rows that it changed."""

    @property
    def num_inserted_rows(self) -> int: ...
    @property
    def num_updated_rows(self) -> int: ...
    @property
    def num_deleted_rows(self) -> int: ...


def operation_word(name: str | None, *, first: bool) -> str:
    """Return what an operation is called; an overwrite of nothing, the ``first``, creates."""
    if first and name == "Overwrite":
        return "create"
    return OPERATIONS.get(name or "", ("unknown operation", False))[0]


def is_quiet(name: str | None) -> bool:
    """Return whether an operation leaves the rows as they are."""
    return OPERATIONS.get(name or "", ("", False))[1]


def operation(version: Version) -> str:
    """Return the word for what made a version, in brackets if it left the rows as they are."""
    word = operation_word(version.operation, first=version.read_version == 0)
    return f"({word})" if is_quiet(version.operation) else word


def own_card(value: Interactive, now: datetime) -> Card:
    """Return the card of what makes its own."""
    return value._card(now)


def origin(version: Version) -> str:
    """Return where a version came from, and how to see the text of the cell."""
    found = version.provenance
    if found is None:
        return ""
    if not found.source:
        return str(found)
    part = f", cut, of {found.cut} bytes" if found.cut else ""
    return f"{found}; its text: .source(){part}"


def commit_cells(commit: Commit) -> tuple[str, ...]:
    """Return the cells of `COMMIT_COLUMNS`."""
    return (
        str(commit.version),
        moment(commit.timestamp),
        operation_word(commit.operation, first=commit.version == 1),
        clean(commit.message or ""),
    )


def ref(branch: str | None, version: int) -> str:
    """Return how a version of a branch is named."""
    return f"{clean(branch or MAIN)}:{version}"


def checkout(branch: str | None, version: int) -> str:
    """Return the call that opens a version of a branch."""
    reference = version if branch in {None, MAIN} else (branch, version)
    return f"ds.checkout_version({reference!r})"


def when_and_age(when: datetime | None, now: datetime) -> str:
    """Return a time and how long ago it was; nothing if it is not known."""
    return f"{moment(when)} ({age(when, now)})" if when else ""


def tags_by_version(tags: Tags, branch: str) -> dict[int, list[str]] | None:
    """Return the tags of a branch by version, ``None`` if there are too many to read."""
    _, pairs = tags._names_and_refs(REFS_READ)
    if pairs is None:
        return None
    found: dict[int, list[str]] = {}
    for name, tag in pairs:
        if (tag["branch"] or MAIN) == branch:
            found.setdefault(tag["version"], []).append(name)
    return found


def fragments(version: Version) -> str:
    """Return how many fragments and files a version has, and how many rows are deleted of it."""
    files = [plural(version.num_data_files, "data file")]
    if version.num_deletion_files:
        files.append(plural(version.num_deletion_files, "deletion file"))
    deleted = f"; {plural(version.num_deleted_rows, 'deleted row')}"
    return (
        f"{plural(version.num_fragments, 'fragment')} in {' and '.join(files)}"
        f"{deleted if version.num_deleted_rows else ''}"
    )


def data_size(version: Version) -> str:
    """Return how large the data files of a version are, if that was recorded."""
    # releases before 0.30 did not record the sizes of their files
    known = version.total_bytes or not version.num_data_files
    return size(version.total_bytes) if known else "size not recorded"


def changed_rows(result: ChangedRows) -> tuple[str, ...]:
    """Return how many rows were inserted, updated and deleted."""
    return (
        f"{count(result.num_inserted_rows)} inserted",
        f"{count(result.num_updated_rows)} updated",
        f"{count(result.num_deleted_rows)} deleted",
    )


def first_of(most: int, number: int, whole: str = "") -> str:
    """Return what a table says that may be cut: how many of all it has, and what has all."""
    if number <= most:
        return ""
    return f"the first {count(most)} of {count(number)}{whole and f'; {whole} has all'}"


def titled(*titles: str, numeric: Collection[str] = ()) -> tuple[Column, ...]:
    """Return the columns of a table; ``numeric`` names those of numbers."""
    return tuple(Column(title, numeric=title in numeric) for title in titles)


def facts(*pairs: tuple[str, str]) -> tuple[Fact, ...]:
    """Return facts of labels and what is to be said, without those that have nothing to say."""
    return tuple(Fact(label, value) for label, value in pairs if value)


#: what a table says of a commit in each of its rows
COMMIT_COLUMNS = titled("version", "committed", "operation", "message")


def waiting_facts(waiting: WaitingRows | None) -> tuple[Fact, ...]:
    """Return the fact that names rows that wait in shards, and the call for them."""
    if not waiting:
        return ()
    merges = f"; {waiting.advice}" if waiting.advice else ""
    is_read = waiting.quarantined and not waiting.without_logs
    reads = "; ds.mem_wal_quarantine() reads the quarantine" if is_read else ""
    return facts(("waiting", f"{waiting.words}{merges}{reads}"))


@dataclass(frozen=True, slots=True)
class DatasetLocation:
    """Where a dataset is, fit to be shown; its name, the last part of that; and as code."""

    uri: str
    name: str
    code: str


def place_of(ds: LanceDataset) -> DatasetLocation:
    """Return where the dataset itself is: a branch's handle may name the branch's folder.

    The code is relative to the working folder of now, and only if the handle was opened so.
    """
    root = ds._location.root.uri
    shown = place(root)
    name = root.rstrip("/").rpartition("/")[2] or shown
    return DatasetLocation(clean(shown), clean(name), code(shown if is_relative(ds.uri) else root))


def table(*, caption: str, columns: Sequence[Column], rows: Sequence[Row], note: str = "") -> Table:
    """Return an open table without the columns in which no row has anything to say."""
    used = [i for i in range(len(columns)) if any(row.cells[i] for row in rows)]
    return Table(
        caption=caption,
        columns=tuple(columns[i] for i in used),
        rows=tuple(Row(tuple(row.cells[i] for i in used), row.quiet) for row in rows),
        note=note,
    )
