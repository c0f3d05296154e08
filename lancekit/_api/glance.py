"""Rows that a card reads, within limits.

A card reads metadata only, with one exception: a diff, a plan and a comparison of branches show
rows.  They read them if the estimated bytes and the seconds stay below a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lancekit._api.branch_comparison import BranchComparison
from lancekit._api.diff import DatasetDiff, DiffCounts
from lancekit._api.some_rows import SomeRows, is_wide, shares, some_rows
from lancekit._file.kernels.bounds import value_bytes
from lancekit._format.field_marks import holds_blobs
from lancekit._legible import clean_line, count
from lancekit._operations.explain.explanation import stored_bytes
from lancekit._operations.lineage.conflicts import KINDS, ConflictedRow, Conflicts
from lancekit._operations.lineage.diff_plan import DiffPlan, filter_columns
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError
from lancekit.options import options
from lancekit.progress import Stopped, stoppable

#: the most bytes and seconds: on a local disk and in memory, and in an object store
_NEAR, _FAR = (256 << 20, 1.0), (8 << 20, 3.0)
#: the most bytes of a small read, and its seconds: a busy machine takes long to begin
_SMALL, _PATIENCE = 16 << 20, 5.0


def glance(sides: Sequence[Snapshot], size: Callable[[], int], work: Callable[[], object]) -> str:
    """Run work that reads rows of versions; return why it did not finish, or ``""``.

    It runs in this process, and draws no progress.  An interrupt is raised as usual.

    size: estimates the bytes to read, from metadata.
    """
    if not options.display_reads:
        return "options.display_reads is off"
    uris = [side.location.root.uri for side in sides]
    is_near = all("://" not in uri or uri.startswith(("memory:", "file:")) for uri in uris)
    most, seconds = _NEAR if is_near else _FAR
    try:
        if (needed := size()) > most:
            return f"about {_size(needed)} to read, and a card reads at most {_size(most)}"
        with options(engine="local"):
            seconds = max(seconds, _PATIENCE) if needed <= _SMALL else seconds
            stoppable(seconds).within(work)
    except Stopped:
        return f"stopped after {seconds:.0f} s"
    except Exception as error:  # a repr must not raise
        kind = "" if isinstance(error, LancekitError) else f"{type(error).__name__}: "
        return clean_line(f"{kind}{str(error).splitlines()[0]}", 400)
    return ""


def _size(number: int) -> str:
    return f"{count(max(round(number / (1 << 20)), 1))} MiB"


# ---- the rows and bytes that a comparison reads


def heavy_columns(columns: Sequence[ColumnPair], *sides: Snapshot) -> list[ColumnPair]:
    """Return the columns that hold blobs in a version: a card does not read their bytes."""
    fields = (field for side in sides for field in side.manifest.schema.fields)
    heavy = {one.id for one in fields if any(holds_blobs(part.metadata) for part in one.walk())}
    return [p for p in columns if p.new.id in heavy or (p.old is not None and p.old.id in heavy)]


def without_blobs(plan: DiffPlan) -> DiffPlan:
    """Return the plan without the columns that hold blobs."""
    heavy = {pair.name for pair in heavy_columns(plan.columns, plan.old, plan.new)}
    if not heavy:
        return plan

    def light(columns: Sequence[ColumnPair]) -> tuple[ColumnPair, ...]:
        return tuple(pair for pair in columns if pair.name not in heavy)

    pairs = tuple(replace(pair, columns=light(pair.columns)) for pair in plan.shared.pairs)
    shared = replace(plan.shared, pairs=pairs)
    return replace(plan, columns=light(plan.columns), shared=shared)


def bytes_to_compare(plan: DiffPlan) -> int:
    """Estimate the bytes that a comparison reads on both sides, from metadata."""
    found = plan.shared
    pairs = [pair for pair in found.pairs if pair.columns]
    differing = {column.name for pair in pairs for column in pair.columns}
    columns = {pair.name for pair in plan.columns}
    filtered = set() if plan.condition is None else filter_columns(plan.condition, plan.new)
    return sum(
        _stored(snapshot, sources, [p for p in plan.columns if p.name in names], new=new)
        for snapshot, sources, names, new in (
            (plan.old, found.old, columns, False),
            (plan.new, found.new, columns, True),
            (plan.old, [pair.old for pair in pairs], differing, False),
            (plan.new, [pair.new for pair in pairs], differing, True),
            (plan.new, found.same if plan.looks_at_same else (), {*plan.key}, True),
            (plan.old, fragment_sources(plan.old) if filtered else (), filtered, False),
        )
    )


def _stored(
    side: Snapshot, sources: Sequence[FragmentSource], columns: Sequence[ColumnPair], *, new: bool
) -> int:
    fields = [None if new and pair.is_lacked else pair.new if new else pair.old for pair in columns]
    here = [field for field in fields if field is not None]
    rows = sum(source.num_rows for source in sources)
    # old manifests lack the sizes of files
    return stored_bytes(sources, side.manifest.schema, [field.name for field in here]) or (
        rows * sum(value_bytes(field.to_arrow().type) for field in here)
    )


# ---- the cards of conflicts, of a comparison of branches, and of a diff


def some_conflicts(conflicts: Conflicts) -> tuple[Sequence[ConflictedRow], str]:
    """Return conflicting rows of each kind without large values, and why they were not read."""
    rows: list[ConflictedRow] = []
    plan = conflicts._plan

    def look() -> None:
        kinds = conflicts._kinds()
        places = [np.flatnonzero(kinds == kind) for kind in range(len(KINDS))]
        sizes = shares(list(map(len, places)), options.display_rows)
        some = np.concatenate([one[:most] for one, most in zip(places, sizes, strict=True)])
        ranked = np.argsort(-plan.clashes.cells[some].sum(axis=0), kind="stable").tolist()
        sources = fragment_sources(plan.ours)[:2]
        skipped = heavy_columns(plan.columns, plan.ours, plan.theirs)
        skipped += [plan.columns[at] for at in ranked[options.display_columns :]]
        left = [p for p in plan.columns if p not in skipped and not p.is_lacked]
        skipped += [pair for pair in left if is_wide(plan.ours, pair.new, sources)]
        rows.extend(conflicts._rows(some, {pair.name for pair in skipped}.difference(plan.key)))

    return rows, glance((plan.ours, plan.theirs), lambda: 0, look)


def find_conflicts(found: BranchComparison) -> str:
    """Find the conflicts of a comparison for its card; return why not, or ``""``."""
    plans = found.theirs_diff._plan, found.ours_diff._plan
    if found.is_compared:
        return ""
    if any(without_blobs(plan) is not plan for plan in plans):
        return "a column holds blobs"
    sides = (plans[0].new, plans[1].new)
    return glance(sides, lambda: sum(map(bytes_to_compare, plans)), lambda: found.conflicts)


@dataclass(frozen=True, slots=True)
class Glance:
    """The part of a diff that a card shows.

    `diff` compares no blobs.  Without `counts`, it is not compared; `why` is the reason.  `bytes`
    is None if the estimate failed.  `heavy` are the columns whose values were not read.
    """

    diff: DatasetDiff
    counts: DiffCounts | None
    bytes: int | None
    some: SomeRows
    heavy: tuple[str, ...]
    why: str


def glance_at(diff: DatasetDiff) -> Glance:
    """Compare the rows of a diff, and read some, within the limits of a card."""
    plan = diff._plan
    if diff._light is None and (light := without_blobs(plan)) is not plan:
        diff._light = DatasetDiff(light)
    found = diff if diff.is_compared or diff._light is None else diff._light
    heavy = heavy_columns(plan.columns, plan.old, plan.new)
    needed, some = None, SomeRows()

    def size() -> int:
        nonlocal needed
        needed = bytes_to_compare(found._plan)
        return 0 if found.is_compared else needed

    def look() -> None:
        nonlocal some
        _ = found.counts
        some = some_rows(found._rows, options.display_rows, options.display_columns, heavy)

    why = glance((plan.old, plan.new), size, look)
    skipped = [] if found is diff else [pair.name for pair in heavy]
    return Glance(found, found.__dict__.get("counts"), needed, some, (*skipped, *some.wide), why)
