"""Cards of results of operations and queries, of merges' plans and samples, and of cleanups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancekit._api.branch_comparison import BranchComparison
from lancekit._api.diff_rows import ChangedRow
from lancekit._api.glance import find_conflicts, some_conflicts
from lancekit._legible import literal
from lancekit._notebook.cards.answers import undo_facts
from lancekit._notebook.cards.common import (
    ENGINES,
    NAMES,
    changed_rows,
    facts,
    folded,
    reason,
    ref,
    table,
    titled,
    waiting_facts,
)
from lancekit._notebook.cards.histories import rows_table as changes_table
from lancekit._notebook.cards.rows import rows_table
from lancekit._notebook.render.models import Card, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, cut, listing, plural, size
from lancekit._operations.cleanup.plan import CleanupStats
from lancekit._operations.cleanup.run import CleanupExplanation
from lancekit._operations.common.new_file import WrittenFiles
from lancekit._operations.common.results import (
    ApplyResult,
    CompactionMetrics,
    DeleteResult,
    MergeResult,
    UpdateResult,
)
from lancekit._operations.lineage.branch_merge import BranchMergePlan
from lancekit._operations.lineage.conflicts import ConflictedRow, Conflicts
from lancekit._operations.maintenance.deepen import DeepenResult
from lancekit._sampled import SampledRows
from lancekit._statements.select import Part, SqlResult
from lancekit.options import options

#: the largest number of characters of a value, and of conflicting values of a row
_VALUE, _VALUES = 80, 3
#: the argument that settles conflicts
_RESOLVE = Fact("resolve", 'conflicts="ours", "theirs", or lk.Sides(...)', code=True)


def _seconds(duration: float) -> str:
    return f"{duration:.2f} s"


def _attempts(number: int) -> str:
    """Return the number of attempts in words; ``""`` for a single one."""
    return "" if number == 1 else f"{count(number)} (other writers committed first)"


_GUARDS = {
    "exact": "exact: concurrent inserts of these keys retry",
    "bloom": "Bloom: concurrent inserts of these keys retry",
    None: "none: the merge key is not the primary key",
    "": "",
}


def merge_card(result: MergeResult, _now: datetime) -> Card:
    parts = {how: getattr(result, f"fragments_{how}") for how in ("added", "changed", "removed")}
    return Card(
        kind="Merge",
        title=f"merged into {ref(result.branch, result.version)}",
        headline=(*changed_rows(result), _seconds(result.duration)),
        facts=facts(
            ("merge key", listing(result.on, options.display_columns)),
            ("added columns", listing(map(clean, result.columns_added), NAMES)),
            ("note", "" if any(result.values()) else "no row changed"),
            *_how_it_ran(result),
            *_undo(result),
        ),
        tables=folded(
            ("key filter", _GUARDS[result.key_guard if result.num_inserted_rows else ""]),
            ("read version", ref(result.branch, result.read_version)),
            ("new data", size(result.bytes_written) if result.bytes_written else ""),
            ("fragments", _amounts(parts)),
        ),
    )


def _amounts(numbers: Mapping[str, int]) -> str:
    """Return numbers with their words, without zeros."""
    return ", ".join(f"{count(number)} {word}" for word, number in numbers.items() if number)


def delete_card(result: DeleteResult, _now: datetime) -> Card:
    return _change_card("Delete", f"deleted {plural(result.num_deleted_rows, 'row')}", result)


def update_card(result: UpdateResult, _now: datetime) -> Card:
    columns = ("columns", listing(result.columns, options.display_columns))
    title = f"updated {plural(result.num_rows_updated, 'row')}"
    return _change_card("Update", title, result, columns)


def _change_card(
    kind: str, title: str, result: DeleteResult | UpdateResult, *details: tuple[str, str]
) -> Card:
    return Card(
        kind=kind,
        title=title,
        headline=(ref(result.branch, result.version), _seconds(result.duration)),
        facts=facts(*details, *_how_it_ran(result), *_undo(result)),
    )


def _how_it_ran(
    result: CompactionMetrics | DeleteResult | MergeResult | UpdateResult,
) -> Iterator[tuple[str, str]]:
    yield "attempts", _attempts(result.attempts)
    yield "engine", ENGINES.get(result.engine, result.engine)


def apply_card(result: ApplyResult, _now: datetime) -> Card:
    landed = result.version != result.read_version
    base = ref(*result.base) if result.base[1] else "no base"
    title = f"{_VERBS.get(result.doing, result.doing)} {ref(result.branch, result.version)}"
    return Card(
        kind="Changes",
        title=title if landed else f"no changes to {ref(result.branch, result.version)}",
        headline=(*changed_rows(result), _seconds(result.duration)),
        facts=facts(
            ("changes", f"{base} → {ref(*result.theirs)}"),
            ("method", result.how if landed else ""),
            ("conflicts", f"{count(result.num_conflicts)}" if result.num_conflicts else ""),
            _cells(result),
            *_columns(result),
            ("read version", ref(result.branch, result.read_version) if landed else ""),
            ("attempts", _attempts(result.attempts)),
            *(_undo(result) if landed else ()),
        ),
    )


def _cells(found: ApplyResult | BranchMergePlan) -> tuple[str, str]:
    """Return the number of changed values, if it is known already: a card reads no rows."""
    number = found.get("num_changed_cells")
    return "changed cells", count(number) if number else ""


def _columns(found: ApplyResult | BranchMergePlan) -> Iterator[tuple[str, str]]:
    """Yield labels and names of added, dropped, renamed, cast and altered columns."""
    renamed = (f"{clean(old)} → {clean(new)}" for old, new in found.columns_renamed)
    for label, names in (
        ("added columns", map(clean, found.columns_added)),
        ("dropped columns", map(clean, found.columns_dropped)),
        ("renamed columns", renamed),
        ("cast columns", map(clean, found.columns_cast)),
        ("altered columns", map(clean, found.columns_altered)),
    ):
        yield label, listing(names, NAMES)


_VERBS = {
    "apply": "applied to",
    "revert": "reverted on",
    "cherry-pick": "cherry-picked onto",
    "merge": "merged into",
    "rebase": "rebased",
}


def branch_plan_card(plan: BranchMergePlan, _now: datetime) -> Card:
    ends = (("ours", plan.ours), ("theirs", plan.theirs))
    clashes = (f"{count(number)} {kind}" for kind, number in plan.conflicts.counts.items())
    number = plan.num_conflicts + len(plan.conflicts.by_column)
    return Card(
        kind="Merge plan",
        title=f"{plan.doing}: {plan.how}",
        headline=(
            f"{count(plan.num_inserted_rows)} to insert",
            f"{count(plan.num_updated_rows)} to update",
            f"{count(plan.num_deleted_rows)} to delete",
            plural(number, "conflict"),
        ),
        facts=facts(
            *((name, ref(*end)) for name, end in ends),
            ("merge base", _base(plan.base)),
            ("conflicts", listing(clashes, NAMES)),
            _column_conflicts(plan.conflicts),
            _cells(plan),
            *_columns(plan),
            Fact("next", f"plan.{'interactive' if number else 'apply'}()", code=True),
            *([_RESOLVE] if number else ()),
        ),
        tables=_conflict_tables(plan.conflicts, "plan.conflicts"),
    )


def _column_conflicts(conflicts: Conflicts) -> tuple[str, str]:
    """Return label and text of the columns in conflict: each side's change, and the chosen side."""
    found = (
        f"{clean(one.column)}: ours {clean(one.ours)}, theirs {clean(one.theirs)}"
        + (f" → {one.side}" if one.side else "")
        for one in conflicts.by_column
    )
    return "column conflicts", listing(found, NAMES)


def _base(base: tuple[str, int]) -> str:
    """Return the merge base; version 0 stands for no base."""
    if base[1] > 0:
        return ref(*base)
    return "none: rows that differ are conflicts, and no row is deleted"


def comparison_card(found: BranchComparison, _now: datetime) -> Card:
    """Return the card of a branch comparison, with conflicts if they are found soon."""
    ends = (("theirs", found.theirs), ("ours", found.ours), ("merge base", found.base))
    way = "fast-forward" if found.is_fast_forward else "three-way"
    diverged = bool(found.ahead and found.behind)
    why = find_conflicts(found) if diverged else ""
    known = found.is_compared
    branch = literal(found.theirs[0])
    return Card(
        kind="Branches",
        title=" compared with ".join(clean(name) for name, _ in (found.theirs, found.ours)),
        headline=(f"{count(found.ahead)} ahead", f"{count(found.behind)} behind"),
        facts=facts(
            *((name, ref(*end)) for name, end in ends),
            ("merge", way if found.ahead else "nothing to do"),
            ("conflicts", count(len(found.conflicts)) if known else ""),
            *([_column_conflicts(found.conflicts)] if known else ()),
            ("conflicts", f"not searched yet: {why}" if why else ""),
            Fact("next", f"found = ds.branches.compare({branch}); found.theirs_diff", code=True),
            Fact("", f"plan = ds.branches.merge({branch}, dry_run=True)", code=True),
        ),
        tables=_conflict_tables(found.conflicts, "found.conflicts") if known else (),
    )


def conflicts_card(conflicts: Conflicts, _now: datetime) -> Card:
    """Return the card of conflicts, with some of the rows."""
    ends = (("ours", conflicts.ours), ("theirs", conflicts.theirs), ("merge base", conflicts.base))
    return Card(
        kind="Conflicts",
        title=plural(len(conflicts), "conflicting row"),
        headline=tuple(f"{count(n)} {kind}" for kind, n in conflicts.counts.items()),
        facts=facts(
            *((name, ref(*end)) for name, end in ends),
            _column_conflicts(conflicts),
            ("matched by", listing(map(clean, conflicts.key), NAMES)),
            *([_RESOLVE] if len(conflicts) or conflicts.by_column else ()),
        ),
        tables=_conflict_tables(conflicts, "conflicts"),
    )


def _conflict_tables(conflicts: Conflicts, name: str) -> tuple[Table, ...]:
    """Return a table of some conflicts, with a row for each value that both sides changed."""
    if not len(conflicts):
        return ()
    rows, why = some_conflicts(conflicts)
    number = f"{count(len(rows))} of {plural(len(conflicts), 'conflicting row')}"
    ends = {"base": conflicts.base, "ours": conflicts.ours, "theirs": conflicts.theirs}
    sides = (f"{label} {ref(*end)}" for label, end in ends.items())
    return (
        table(
            caption="Conflicts",
            columns=titled(*map(clean, conflicts.key), "ours/theirs", "column", *sides),
            rows=tuple(row for one in rows for row in conflict_rows(one)),
            note=f"{f'not read: {why}' if why else number}; all: {name}.to_table()",
        ),
    )


def conflict_rows(one: ConflictedRow) -> Iterator[Row]:
    """Yield a table row for each value in conflict; of a deleted row, for each changed value."""
    sides = (one.base, one.ours, one.theirs)
    present = [side for side in sides if side is not None]
    names = [name for name in present[0] if name in one.columns and name not in one.key]
    names = [name for name in names if len({repr(side[name]) for side in present}) > 1]
    start = (*(cell(value, _VALUE) for value in one.key.values()), one.kind)
    for name in names[:_VALUES] or [""]:
        ends = ("deleted" if s is None else cell(s[name], _VALUE) if name else "" for s in sides)
        base, *others = ends
        yield Row((*start, clean(name), "" if one.base is None else base, *others))
        start = ("",) * len(start)  # only the first value of a row has its key
    if len(names) > _VALUES:
        yield Row((*start, plural(len(names) - _VALUES, "more column"), "", "", ""))


def sampled_changes_card(rows: SampledRows[ChangedRow], _now: datetime) -> Card:
    shown = rows[: options.display_rows]
    names = list(dict.fromkeys(name for row in shown for name in row.cells))
    made = changes_table("Values, old → new", shown, names[: options.display_columns])
    return _sampled("Changed rows", rows, made)


def sampled_conflicts_card(rows: SampledRows[ConflictedRow], _now: datetime) -> Card:
    shown = rows[: options.display_rows]
    key = [clean(name) for name in shown[0].key] if shown else []
    columns = titled(*key, "ours/theirs", "column", "base", "ours", "theirs")
    lines = tuple(line for row in shown for line in conflict_rows(row))
    return _sampled("Conflicts", rows, Table(caption="Values", columns=columns, rows=lines))


def _sampled(kind: str, rows: SampledRows[Any], table: Table) -> Card:
    title = f"{count(len(rows))} of {plural(rows.total, 'row')}"
    return Card(kind=kind, title=title, headline=(), tables=(table,))


def compaction_card(result: CompactionMetrics, _now: datetime) -> Card:
    left = [
        f"{plural(len(ids), 'fragment')} covered by index {clean(name)}"
        for name, ids in result.left_to_indices.items()
    ]
    old, new = result.fragments_removed, result.fragments_added
    done = (
        ("files", f"{count(result.files_removed)} replaced by {count(result.files_added)}"),
        ("size", f"{size(result.bytes_read)} rewritten to {size(result.bytes_written)}"),
        ("old files", "kept for older versions until cleanup_old_versions() removes them"),
        *_how_it_ran(result),
    )
    gone = plural(result.deleted_rows_removed, "deleted row")
    return Card(
        kind="Compaction",
        title=f"{plural(old, 'fragment')} into {count(new)}" if old else "nothing to compact",
        headline=(
            ref(result.branch, result.version),
            *([f"{gone} removed"] if result.deleted_rows_removed else []),
            _seconds(result.duration),
        ),
        facts=facts(*(done if old else ()), ("skipped", ", ".join(left))),
    )


def deepen_card(result: DeepenResult, _now: datetime) -> Card:
    return Card(
        kind="Deepened",
        title=f"{plural(result.files_copied, 'file')} copied",
        headline=(
            ref(result.branch, result.version),
            size(result.bytes_copied),
            _seconds(result.duration),
        ),
        facts=facts(
            ("copied earlier", plural(result.files_found, "file") if result.files_found else ""),
            ("attempts", _attempts(result.attempts)),
            ("older versions", "still read the shared files"),
        ),
    )


def written_card(result: WrittenFiles, _now: datetime) -> Card:
    return Card(
        kind="Written",
        title=clean(str(result.path)),
        headline=(
            plural(result.num_rows, "row"),
            plural(result.num_files, "file"),
            size(result.num_bytes),
        ),
        facts=waiting_facts(result.waiting),
    )


def cleanup_card(result: CleanupStats, _now: datetime) -> Card:
    return Card(
        kind="Cleanup",
        title=f"removed {plural(result.old_versions, 'old version')}",
        headline=(size(result.bytes_removed),),
        facts=_cleaned(result),
    )


def cleanup_plan_card(result: CleanupExplanation, _now: datetime) -> Card:
    stats = result.stats
    branches = (
        f"branch {clean(b.name)} (version {b.referenced_version})"
        for b in result.referenced_branches
    )
    return Card(
        kind="Cleanup plan",
        title=f"{plural(stats.old_versions, 'old version')} to remove",
        headline=(size(stats.bytes_removed), f"planned at version {result.read_version}"),
        facts=facts(
            *_cleaned(stats),
            ("kept for", listing(branches, NAMES)),
            ("note", listing(result.warnings, NAMES)),
        ),
    )


def _cleaned(stats: CleanupStats) -> tuple[Fact, ...]:
    files = {
        "data": stats.data_files_removed,
        "deletion": stats.deletion_files_removed,
        "transaction": stats.transaction_files_removed,
        "index": stats.index_files_removed,
        "temporary": stats.temporary_files_removed,
    }
    failed = plural(stats.failed_deletes, "file")
    return facts(
        ("files", _amounts(files)),
        ("not removed", failed if stats.failed_deletes else ""),
        ("kept", listing(stats.left_alone, NAMES)),
    )


def _undo(result: ApplyResult | DeleteResult | MergeResult | UpdateResult) -> list[Fact]:
    # a merge or a rebase can be of another branch than the handle's
    here = getattr(result, "doing", "") not in {"merge", "rebase"}
    return undo_facts(result.location, result.branch, result.version, here=here)


# ---- the card of a query result

#: the largest number of characters of a filter
_FILTER = 200


def sql_card(result: SqlResult, _now: datetime) -> Card:
    """Return the card of a query result; it shows only rows that have been computed already."""
    rows = result.shown
    total = "rows not counted" if result.num_rows is None else plural(result.num_rows, "row")
    return Card(
        kind="Result",
        title=total,
        headline=(
            plural(len(result.schema), "column"),
            f"engine: {ENGINES.get(result.engine, result.engine)}",
        ),
        facts=facts(
            ("reason", reason(result.why)),
            *map(_read, result.reads),
            Fact("next", ".to_table(), .to_pandas(), .to_spark()", code=True),
        ),
        tables=() if rows is None else (_rows(rows, result.num_rows),),
    )


def _read(part: Part) -> tuple[str, str]:
    limit = "" if part.limit is None else f", at most {plural(part.limit, 'row')}"
    where = f" where {clean(cut(part.filter, _FILTER))}" if part.filter else ""
    columns = listing(part.columns, 5) or "the number of rows"
    read = f"{columns} of {clean(part.table)}{where}{limit}"
    return "reads", f"{read}{_of_shards(part)}"


def _of_shards(part: Part) -> str:
    """Return the number of shard rows that a query read, or skipped and how to include them."""
    if part.from_shards is not None:
        return f", with {plural(part.from_shards, 'row')} of shards"
    if not part.waiting:
        return ""
    return (
        f"; not read: {part.waiting.words} ({part.waiting.read_by('include_mem_wal=True reads')})"
    )


def _rows(rows: pa.Table, total: int | None) -> Table:
    most_rows, most_columns = options.display_rows, options.display_columns
    return rows_table(rows, total, most_rows=most_rows, most_columns=most_columns)
