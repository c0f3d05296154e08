"""The plan of an operation, its cost, and where it would run: the result of every `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lancekit._call import Call, applied
from lancekit._display import Displayed
from lancekit._file.file_metadata import metadata_of
from lancekit._format.field_marks import holds_blobs
from lancekit._format.paths import parse_path
from lancekit._format.schema import LanceSchema
from lancekit._legible import count, plural
from lancekit._operations.checks.constraints import condition_of, stored_constraints
from lancekit._pipeline.engine import Choice, EngineName
from lancekit._scan.fragments.reader import META_COLUMNS, FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError

#: the engine of changes that read and write only metadata
METADATA_ONLY = Choice("local", "only metadata is read and written")
#: commits that are not checked against constraints
_NO_VALUES = {"Clone", "CreateIndex", "ReserveFragments", "Restore", "Rewrite"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The columns, rows and fragments (of `all_fragments`) to read; `bytes` is an estimate."""

    columns: tuple[str, ...]
    rows: int
    fragments: int
    all_fragments: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """The files that an operation writes: described in words, with sizes if they are known.

    `rows` is an upper bound unless `exact` is set.
    """

    what: str
    rows: int | None = None
    bytes: int | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A step of a plan, with the steps whose rows it consumes.

    name: the kind of step, such as ``"Read"`` or ``"Filter"``.
    does: a description in words.
    reads: the data that the step reads; ``None`` if it uses only its inputs.
    inputs: the steps below it.
    """

    name: str
    does: str = ""
    reads: Reads | None = None
    inputs: tuple[PlanNode, ...] = ()

    def walk(self) -> Iterator[PlanNode]:
        """Yield the node and all nodes below it, each before its inputs.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://plan-example")
        >>> [node.name for node in ds.explain.delete("x > 1").plan.walk()]
        ['Filter', 'Read']
        """
        yield self
        for node in self.inputs:
            yield from node.walk()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Displayed):
    """The plan and cost of an operation, which is not executed: no rows are read, only indices.

    Attributes
    ----------
    operation
        The name of the method.
    engine, why
        The engine that would run the work, ``"local"`` or ``"spark"``, and the reason.
    version, branch
        The version and branch that it would read.
    plan
        The steps from the result down to the files; ``None`` if no rows would be read.
    reads, writes
        The amounts to read and to write; ``None`` if only metadata is read or written.
    commits
        The operations of the transactions, in order; empty if the operation only reads.
    notes
        Further remarks.
    """

    operation: str
    engine: EngineName
    why: str
    version: int
    branch: str | None = None
    plan: PlanNode | None = None
    reads: Reads | None = None
    writes: Writes | None = None
    commits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    _call: Call | None = field(default=None, repr=False, compare=False)

    def apply(self) -> Any:
        """Execute the explained call at the current version of the handle; return its result.

        Raises
        ------
        InvalidArgumentError
            The explanation was applied already.
        NotOfferedError
            The explanation has no call to execute: it came from another process, or explains an
            operation that starts in another way.
        LancekitError
            An error of the executed call.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://apply-example")
        >>> explained = ds.explain.delete("x > 1")
        >>> explained.apply().num_deleted_rows, ds.version
        (2, 2)
        """
        return applied(self._call)

    def _plain(self) -> str:
        return f"Explanation({self.operation} of version {self.version}, engine={self.engine!r})"


def explanation(
    snapshot: Snapshot,
    operation: str,
    choice: Choice,
    *,
    plan: PlanNode | None = None,
    reads: Reads | None = None,
    writes: Writes | None = None,
    commits: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> Explanation:
    """Return the explanation of an operation on a version, with notes on constraints."""
    done = tuple(commits)
    tried = _constraint_notes(snapshot) if set(done) - _NO_VALUES else ()
    return Explanation(
        operation=operation,
        engine=choice.engine,
        why=choice.why,
        version=snapshot.version,
        branch=snapshot.branch,
        plan=plan,
        reads=reads,
        writes=writes,
        commits=done,
        notes=(*filter(None, notes), *tried),
    )


def reads(
    snapshot: Snapshot,
    columns: Iterable[str],
    sources: Sequence[FragmentSource] | None = None,
    rows: int | None = None,
) -> Reads:
    """Return the cost to read columns of fragments.

    columns: names and paths.
    sources: the fragments, all by default.
    rows: the number of rows, if fewer than the fragments have.
    """
    manifest = snapshot.manifest
    selected = fragment_sources(snapshot) if sources is None else sources
    whole = sum(source.fragment.num_rows for source in selected)
    count = whole if rows is None else min(rows, whole)
    names = tuple(dict.fromkeys(columns))
    size = stored_bytes(selected, manifest.schema, names)
    return Reads(
        columns=names,
        rows=count,
        fragments=len(selected),
        all_fragments=max(len(manifest.fragments), len(selected)),  # shards may have more
        bytes=size if count == whole else round(size * count / max(whole, 1)),
    )


def explain_metadata(
    snapshot: Snapshot, operation: str, commits: Iterable[str], notes: Iterable[str] = ()
) -> Explanation:
    """Explain an operation that changes only metadata."""
    return explanation(snapshot, operation, METADATA_ONLY, commits=commits, notes=notes)


# ---- reads that the constraints of a table add to a commit


def _constraint_notes(snapshot: Snapshot) -> Iterator[str]:
    """Yield for each constraint a note: what its check reads, or why it cannot be checked."""
    manifest = snapshot.manifest
    for name, constraint in stored_constraints(manifest.config).items():
        try:
            constraint.check_known()
            condition = condition_of(snapshot, constraint.condition)
        except LancekitError as error:
            yield f"constraint {name!r}: commits of rows will fail: {error.message.splitlines()[0]}"
            continue
        columns = ", ".join(sorted(condition.columns))
        if condition.of_rows:
            yield f"constraint {name!r}: {columns} of new and changed rows is read again"
        elif not columns:
            yield f"constraint {name!r}: the row count is read from the manifest"
        else:
            size = stored_bytes(fragment_sources(snapshot), manifest.schema, condition.columns)
            yield (
                f"constraint {name!r}: each commit attempt reads {columns} of all rows (now "
                f"{plural(manifest.num_rows, 'row')}, {count(size)} bytes)"
            )


# ---- the stored size of columns, estimated from metadata

#: number of layouts with an opened file; in further layouts, columns count as equal in size
_OPENED = 8


def stored_bytes(
    sources: Sequence[FragmentSource], schema: LanceSchema, columns: Iterable[str]
) -> int:
    """Estimate the bytes of files that hold columns.

    The manifest has the size of each file.  One file of each layout is opened to find how its size
    is divided among columns.

    sources: the fragments.
    schema: the dataset's schema.
    columns: names and paths; hidden columns have no bytes.
    """
    tops = {parse_path(name)[0] for name in columns if name not in META_COLUMNS}
    ids = frozenset(field.id for name in tops for field in schema.field(name).walk())
    shares: dict[tuple[object, ...], float] = {}
    total = 0.0
    for source in sources if ids else ():
        for place, file in enumerate(source.fragment.files):
            if not ids.intersection(file.fields):
                continue
            layout = (file.fields, file.version)
            if layout not in shares:
                opened = len(shares) < _OPENED
                by_number = len(ids.intersection(file.fields)) / len(file.fields)
                shares[layout] = _share(source, place, ids, schema) if opened else by_number
            total += file.size_bytes * shares[layout]
    return round(total)


def _share(source: FragmentSource, place: int, ids: frozenset[int], schema: LanceSchema) -> float:
    """Return the share of a file's bytes that belongs to the fields, by their page sizes."""
    file = source.fragment.files[place]
    if ids.issuperset(file.fields):
        return 1.0
    sizes = [c.size_bytes for c in metadata_of(FragmentReader(source).file(place)).columns]
    wanted = {at for id_, at in file.columns.items() if id_ in ids and at < len(sizes)}
    total = max(sum(sizes), 1)
    blobs = {
        top.id
        for top in schema.fields
        if top.id in file.fields and any(holds_blobs(part.metadata) for part in top.walk())
    }
    outside = max(file.size_bytes - total, 0) if blobs else 0  # no page holds the bytes of blobs
    some = sum(sizes[column] for column in wanted) + (outside if blobs & ids else 0)
    return some / (total + outside)
