"""Facts, words and table columns that several cards share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from lancekit._format.names import MAIN
from lancekit._hooks import hooks
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
    from lancekit._api.tags import AtVersion, Tags
    from lancekit._notebook.render.controls import Interactive
    from lancekit._operations.unmerged.waiting_rows import WaitingRows

#: more tags or branches than this are counted but not read, since each is a separate file
REFS_READ = 200
#: replaces the tags of a card that did not read them
TOO_MANY_TAGS = "too many to read for a card"
#: the largest number of names in one line
NAMES = 5

#: by engine: its name for display
ENGINES = {"local": "this process", "spark": "Spark"}

#: by operation: its word, and True if it does not change any row
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
    "UpdateMemWalState": ("update MemWAL", True),
    "Clone": ("clone", False),
    "UpdateBases": ("add base paths", True),
}


class Commit(Protocol):
    """An object with the metadata of a commit."""

    @property
    def version(self) -> int: ...
    @property
    def timestamp(self) -> datetime: ...
    @property
    def operation(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...


class ChangedRows(Protocol):
    """An object with the numbers of inserted, updated and deleted rows."""

    @property
    def num_inserted_rows(self) -> int: ...
    @property
    def num_updated_rows(self) -> int: ...
    @property
    def num_deleted_rows(self) -> int: ...


def operation_word(name: str | None, *, first: bool) -> str:
    """Return the word for an operation: ``"create"`` for an overwrite that is the first version."""
    if first and name == "Overwrite":
        return "create"
    return OPERATIONS.get(name or "", ("unknown operation", False))[0]


def is_quiet(name: str | None) -> bool:
    """Return True if an operation does not change any row."""
    return OPERATIONS.get(name or "", ("", False))[1]


def operation(version: Version) -> str:
    """Return the word for a version's operation."""
    return operation_word(version.operation, first=version.read_version == 0)


def own_card(value: Interactive, now: datetime) -> Card:
    """Return the card that an interactive object builds, and where its controls are.

    The card is seen where the widget is not.
    """
    made = value._card(now)
    controls = Fact("controls", "run the cell in Jupyter, with ipywidgets")
    return replace(made, facts=(*made.facts, controls))


def origin(version: Version) -> str:
    """Return the notebook, script or application of a version, and how to see the cell's text."""
    found = version.provenance
    if found is None:
        return ""
    if not found.source:
        return str(found)
    part = f", cut, of {found.cut} bytes" if found.cut else ""
    return f"{found}; cell text: .source(){part}"


def commit_cells(commit: Commit) -> tuple[str, ...]:
    """Return the cells of `COMMIT_COLUMNS`."""
    return (
        str(commit.version),
        moment(commit.timestamp),
        operation_word(commit.operation, first=commit.version == 1),
        clean(commit.message or ""),
    )


def ref(branch: str | None, version: int) -> str:
    """Return the reference of a version, such as ``main:12``."""
    return f"{clean(branch or MAIN)}:{version}"


def checkout(branch: str | None, version: int) -> str:
    """Return the call that opens a version of a branch."""
    reference = version if branch in {None, MAIN} else (branch, version)
    return f"ds.checkout_version({reference!r})"


def when_and_age(when: datetime | None, now: datetime) -> str:
    """Return a time and its age; ``""`` if the time is not known."""
    return f"{moment(when)} ({age(when, now)})" if when else ""


def tags_by_version(tags: Tags[AtVersion], branch: str) -> dict[int, list[str]] | None:
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
    """Return a version's numbers of fragments, data files, deletion files and deleted rows."""
    files = [plural(version.num_data_files, "data file")]
    if version.num_deletion_files:
        files.append(plural(version.num_deletion_files, "deletion file"))
    deleted = f"; {plural(version.num_deleted_rows, 'deleted row')}"
    return (
        f"{plural(version.num_fragments, 'fragment')} in {' and '.join(files)}"
        f"{deleted if version.num_deleted_rows else ''}"
    )


def data_size(version: Version) -> str:
    """Return the total size of a version's data files, if the manifest records it."""
    # releases before 0.30 did not record file sizes
    known = version.total_bytes or not version.num_data_files
    return size(version.total_bytes) if known else "size not recorded"


def changed_rows(result: ChangedRows) -> tuple[str, ...]:
    """Return the numbers of inserted, updated and deleted rows in words."""
    return (
        f"{count(result.num_inserted_rows)} inserted",
        f"{count(result.num_updated_rows)} updated",
        f"{count(result.num_deleted_rows)} deleted",
    )


def first_of(most: int, number: int, whole: str = "") -> str:
    """Return the note on a table with ``most`` of ``number`` rows, with the call for all rows."""
    if number <= most:
        return ""
    return f"first {count(most)} of {count(number)}{whole and f'; all: {whole}'}"


def titled(*titles: str, numeric: Collection[str] = ()) -> tuple[Column, ...]:
    """Return the columns of a table; ``numeric`` has the titles of right-aligned columns."""
    return tuple(Column(title, numeric=title in numeric) for title in titles)


def reason(why: str) -> str:
    """Return why an engine was chosen, without the bound for Spark if no session is active."""
    spark = hooks.spark
    parts = why.split("; ")
    if spark is None or not spark.is_active():
        parts = [
            part for part in parts if "are fewer than options.spark_threshold_rows" not in part
        ]
    return clean("; ".join(parts))


def facts(*given: tuple[str, str] | Fact) -> tuple[Fact, ...]:
    """Return facts, also of (label, value) pairs, without the pairs whose value is empty."""
    return tuple(
        one if isinstance(one, Fact) else Fact(*one)
        for one in given
        if (one.value if isinstance(one, Fact) else one[1])
    )


def folded(*details: tuple[str, str]) -> tuple[Table, ...]:
    """Return a folded table of details that few users need, without empty ones."""
    rows = tuple(Row(pair) for pair in details if pair[1])
    columns = titled("detail", "value")
    return (Table(caption="Details", columns=columns, rows=rows, folded=True),) if rows else ()


#: the columns of a commit's metadata in tables with one commit per row
COMMIT_COLUMNS = titled("version", "committed", "operation", "message")


def waiting_facts(waiting: WaitingRows | None) -> tuple[Fact, ...]:
    """Return a fact with the rows that wait in shards and the call that merges them, if any."""
    if not waiting:
        return ()
    merges = f"; {waiting.advice}" if waiting.advice else ""
    is_read = waiting.quarantined and not waiting.without_logs
    reads = "; ds.mem_wal_quarantine() reads the quarantine" if is_read else ""
    return facts(("unmerged rows", f"{waiting.words}{merges}{reads}"))


@dataclass(frozen=True, slots=True)
class DatasetLocation:
    """A dataset's location for display, its last part as name, and the location as code."""

    uri: str
    name: str
    code: str


def place_of(ds: LanceDataset) -> DatasetLocation:
    """Return the location of the dataset's root, also for a handle opened on a branch's folder.

    The code has a path relative to the current folder only if the handle was opened by such a path.
    """
    root = ds._location.root.uri
    shown = place(root)
    name = root.rstrip("/").rpartition("/")[2] or shown
    return DatasetLocation(clean(shown), clean(name), code(shown if is_relative(ds.uri) else root))


def table(*, caption: str, columns: Sequence[Column], rows: Sequence[Row], note: str = "") -> Table:
    """Return an unfolded table without the columns that are empty in every row."""
    used = [i for i in range(len(columns)) if any(row.cells[i] for row in rows)]
    return Table(
        caption=caption,
        columns=tuple(columns[i] for i in used),
        rows=tuple(Row(tuple(row.cells[i] for i in used), row.quiet) for row in rows),
        note=note,
    )
