"""Apply the changes of another version (merge, cherry-pick, revert, rebase) in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._commit.manifest.draft import numbered
from lancekit._commit.rules.pending import BatchMarker, Pending
from lancekit._format.fragment import Fragment
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.operations import Merge, Operation, UpdateConfig
from lancekit._operations.cleanup.auto import commit
from lancekit._operations.common.results import ApplyResult
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.common.staged_files import removed_unless_landed
from lancekit._operations.lineage.carry_columns import (
    CarriedColumns,
    carry_columns,
    commit_with_files,
    relink_missing,
    with_deletions,
)
from lancekit._operations.lineage.changed import Changed, Rules, commit_properties
from lancekit._operations.lineage.column_conflicts import ColumnChanges, takes_old_rows
from lancekit._operations.lineage.column_key import check_new_key
from lancekit._operations.lineage.conflicts import (
    Conflicts,
    Named,
    Resolve,
    Sides,
    choose_sides,
    pair_with_conflicts,
    settle,
)
from lancekit._operations.lineage.merge_base import (
    implied_marks,
    merged_mark,
    picked_marks,
    returned_mark,
)
from lancekit._operations.lineage.merged_columns import Given, Settled
from lancekit._operations.lineage.several_bases import combined
from lancekit._operations.lineage.three_way import three_ways
from lancekit._operations.lineage.three_way_plan import ThreeWay, check_names
from lancekit._operations.lineage.write_rows import RowsWork, stored_columns, write_rows
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.diff.column_identity import merged_id_property, target_id_property
from lancekit._pipeline.diff.row_values import (
    NOWHERE,
    Addresses,
    read_rows,
    row_values,
    rows_at_a_time,
)
from lancekit._pipeline.diff.values import differing
from lancekit._pipeline.inputs import as_reader
from lancekit._scan.fragments.rebatch import joined, taken
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.merge_edges import MERGE_KEYS, check_requirements
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import IncompatibleConflictError, SchemaMismatchError, UnsupportedFeatureError
from lancekit.progress import tracking


@tracking("merging")
def apply_changes(
    ours: Snapshot,
    changed: Callable[[Snapshot], Changed],
    rules: Rules,
    policy: RetryPolicy,
    fast_path: Callable[[Changed, Snapshot, Rules], tuple[Snapshot, ApplyResult] | None]
    | None = None,
) -> tuple[Snapshot, ApplyResult]:
    """Apply changes to a version; if another commit lands first, retry on the newest version.

    ours: the version to change.
    changed: returns the changes to apply, for each version that is tried.
    rules: how conflicts are found and settled.
    policy: how often to retry.
    fast_path: is tried before the three-way merge; returns ``None`` if it does not apply.

    Raises MergeConflictError: both sides changed a row, and no side was chosen for it.
    Raises InvalidArgumentError: the rows of the two sides cannot be matched.
    Raises SchemaMismatchError: both sides changed a column, and no side was chosen for it.
    Raises DuplicateKeysError: one side set a primary key, and rows of the other side repeat its
        values.
    """
    started = time.monotonic()

    def attempt(current: Snapshot) -> tuple[Snapshot, ApplyResult]:
        change = changed(current)
        check_change(change, current, rules)
        if change.is_merged:
            return current, unchanged_result(change, current, rules)
        if fast_path is not None and (found := fast_path(change, current, rules)):
            return found
        plan = planned(change, current, rules, refuse=True)
        settled = settled_rows(plan, rules.conflicts)
        check_new_key(plan, settled)
        result = result_of(plan, settled, change, rules)
        if not (settled or change.mark or plan.changes_columns):
            return current, replace(result, how="nothing to do")
        landed: Snapshot | None
        if plan.is_empty and not change.other_bases:
            landed = _commit_edges(plan, change, rules)
        else:
            commit_plan = _commit_columns if plan.changes_columns else _commit_rows
            landed = commit_plan(plan, settled, change, rules)
        if landed is None:
            newest = latest_snapshot(current.location)
            return newest, unchanged_result(change, newest, rules)
        return landed, replace(result, how="three-way", version=landed.version)

    (landed, result), attempts = retried_writing(ours, attempt, policy)
    took = time.monotonic() - started
    return landed, replace(result, attempts=attempts, duration=took, location=landed.location)


def check_change(change: Changed, ours: Snapshot, rules: Rules) -> None:
    """Refuse versions and rules that cannot be merged, before any comparison.

    Raises UnsupportedFeatureError: a side requires a newer lancekit.
    Raises ColumnNotFoundError: the rules choose a side for a column that no version has.
    """
    for side in (change.theirs, ours):
        check_requirements(side, f"The {rules.doing}")
    if isinstance(rules.conflicts, Sides):
        check_names(
            rules.conflicts.columns, [ours, change.theirs, change.base, *change.other_bases]
        )


def edges_only(mark: BatchMarker | None, implied: Sequence[BatchMarker]) -> UpdateConfig:
    """Return the operation that records a merge without changes of rows or columns.

    A writer of either library that read an older version can still land after this commit.
    """
    marks = (*(() if mark is None else (mark,)), *implied)
    return UpdateConfig(config_updates=UpdateMap({one.key: one.text for one in marks}))


def _commit_edges(plan: ThreeWay, change: Changed, rules: Rules) -> Snapshot:
    """Record a merge of a source that has no net change since the base.

    The next merge starts at the recorded version.  So it knows values that the source had in
    between, and that other branches got from there.  Another commit, such as a restore, can remove
    source changes from the target.  So this commit is the next version, or the merge is replanned.
    """
    pending = _pending(UpdateConfig(), plan, change, rules)
    pending = replace(pending, operation=edges_only(pending.mark, pending.implied))
    return commit_with_files(pending, (), plan.theirs, plan.ours)


def _pending(
    operation: Operation,
    plan: ThreeWay,
    change: Changed,
    rules: Rules,
    work: RowsWork | None = None,
) -> Pending:
    columns = [part for column in plan.merged.columns for part in column.walk()]
    of_theirs = [(one.field, one.theirs) for one in columns]
    mark = change.mark and merged_mark(change.mark, plan.schema, plan.theirs, of_theirs)
    implied = implied_marks(change.implied, plan.schema, plan.theirs, of_theirs)
    returns = work is not None and work.gives_ids
    if mark is None and (returns or len(plan.changes.inserted)):
        implied = picked_marks(plan.base, plan.theirs, plan.ours)
    if returns:
        implied = (*implied, returned_mark(plan.ours))
    return Pending(
        operation=operation,
        doing=rules.doing,
        properties={
            **commit_properties(change, rules),
            **target_id_property([(one.field, one.ours) for one in columns], plan.ours),
            **merged_id_property(of_theirs, plan.theirs),
        },
        mark=mark,
        implied=implied,
    )


def _commit_rows(
    plan: ThreeWay, settled: Settled, change: Changed, rules: Rules
) -> Snapshot | None:
    """Write and commit rows; ``None`` if another process landed the same merge first."""
    ours, work = plan.ours, write_rows(plan, settled)
    with removed_unless_landed(ours.store, work.new_fragments):
        pending = replace(
            _pending(work.operation(ours), plan, change, rules, work),
            affected_rows=work.affected,
            based_on=MERGE_KEYS if change.mark else None,
        )
        if work.is_return:
            # another writer may have restored the same rows, which no conflict rule detects
            return commit_with_files(pending, (), plan.theirs, ours)
        try:
            return commit(ours, pending)
        except IncompatibleConflictError:
            config = latest_snapshot(ours.location).manifest.config
            if not (change.mark and change.mark.has_landed(config)):
                raise
            return None


def _commit_columns(plan: ThreeWay, settled: Settled, change: Changed, rules: Rules) -> Snapshot:
    """Write rows and columns, and commit both as the next version or not at all.

    The commit is a `Merge`.  In both libraries it conflicts with every change of rows and columns,
    in either order, so it needs no key filter.  It leaves out fragments whose rows are all deleted:
    pylance can neither compact nor extend them.  The reference refuses its own `Merge` without some
    fragments, because it may land on a newer version than it read; this commit cannot.

    Raises RetryableConflictError: another writer landed first.
    """
    ours, work = plan.ours, write_rows(plan, settled)
    with removed_unless_landed(ours.store, work.new_fragments):
        deleted, gone = work.deletions(ours)
        carried = carry_columns(plan, gone, work.affected)
        with removed_unless_landed(ours.store, carried.written):
            operation = _merge_of(plan, work, deleted, carried)
            pending = replace(_pending(operation, plan, change, rules, work), moves_rows=True)
            landed = commit_with_files(pending, carried.copies, plan.theirs, ours)
    # after the `with` blocks: an error here must not remove committed files
    relink_missing(carried.copies, plan.theirs, ours)
    return landed


def _merge_of(
    plan: ThreeWay, work: RowsWork, deleted: Iterable[Fragment], carried: CarriedColumns
) -> Merge:
    ours, fragments = plan.ours.manifest, dict(carried.fragments)
    fragments |= {fragment.id: fragment for fragment in with_deletions(fragments, deleted)}
    # new fragments get their ids here, else one could get the id of a removed fragment
    new = numbered(ours, work.new_fragments)
    return Merge(
        fragments=(*fragments.values(), *new),
        schema=plan.schema,
        preserves_nullability=takes_old_rows(ours.schema, plan.schema),
    )


def planned(change: Changed, ours: Snapshot, rules: Rules, *, refuse: bool = False) -> ThreeWay:
    """Return the plan of the three-way merge; ``refuse`` raises for unsettled column conflicts.

    Raises SchemaMismatchError: a column conflict is not settled.
    """
    sides = Sides() if callable(rules.conflicts) else sides_of(rules.conflicts)
    bases = [(change.base, change.before, change.our_copy or change.base)]
    bases += [(base, base, base) for base in change.other_bases]
    try:
        plans = three_ways(
            bases,
            change.theirs,
            ours,
            on=rules.on,
            by=rules.by,
            named=sides.columns,
            default=sides.default,
            has_bases=rules.doing not in ("cherry-pick", "apply"),
            refuse=refuse,
        )
    except UnsupportedFeatureError as error:
        if "column" not in error.context:
            raise
        raise SchemaMismatchError(
            f"The columns of {ours.called} and {change.theirs.called} cannot be merged: "
            f"{error.message}",
            hint="Make the columns of both sides equal first.",
            **error.context,
        ) from error
    return plans[0] if len(plans) == 1 else combined(plans, rules.by)


def settled_rows(plan: ThreeWay, conflicts: Resolve) -> Settled:
    """Return the changes of the target's rows, with all conflicts settled.

    Raises MergeConflictError: a conflict has no chosen side.
    """
    if not len(plan.clashes):
        return plan.agreed
    if callable(conflicts):
        return _settled_by(plan, conflicts(Conflicts(plan)))
    chosen = choose_sides(plan, sides_of(conflicts))
    if len(chosen.left):
        raise Conflicts(plan).error(chosen.left)
    return settle(plan, chosen)


def sides_of(conflicts: Named) -> Sides:
    return conflicts if isinstance(conflicts, Sides) else Sides(conflicts)


def unchanged_result(change: Changed, ours: Snapshot, rules: Rules) -> ApplyResult:
    """Return the result of a merge that changes nothing."""
    return ApplyResult(
        doing=rules.doing,
        how="nothing to do",
        base=change.base.reference,
        theirs=change.theirs.reference,
        version=ours.version,
        read_version=ours.version,
        branch=ours.branch,
        location=ours.location,
    )


def with_columns(result: ApplyResult, columns: ColumnChanges) -> ApplyResult:
    """Return the result with the names of added, dropped, renamed, cast and altered columns."""
    return replace(
        result,
        columns_added=columns.added,
        columns_dropped=columns.dropped,
        columns_renamed=columns.renamed,
        columns_cast=columns.cast,
        columns_altered=columns.altered,
    )


def result_of(plan: ThreeWay, settled: Settled, change: Changed, rules: Rules) -> ApplyResult:
    """Return the result of a merge whose changes are all applied."""
    inserted, updated, cells = settled.counts
    return replace(
        with_columns(unchanged_result(change, plan.ours, rules), plan.merged.changes),
        num_inserted_rows=inserted,
        num_updated_rows=updated,
        num_deleted_rows=len(settled.deleted),
        num_conflicts=len(plan.clashes),
        _cells=cells,
    )


# ---- conflicts settled by a function: each row that it returns replaces the conflicting row

_ID = "_rowid"


def _settled_by(plan: ThreeWay, rows: object) -> Settled:
    """Return the settled changes, with conflicts replaced by the rows that a function returned.

    A row settles the conflict with its key, or its ``_rowid``.  A conflict without a row deletes
    the row.

    Raises InvalidArgumentError: a row belongs to no conflict, or two rows to the same conflict.
    Raises SchemaMismatchError: the rows do not fit the columns.
    """
    conflicts = Conflicts(plan)
    names = conflicts.key
    schema = plan.schema.to_arrow()
    wanted = schema if plan.key else schema.append(pa.field(_ID, pa.uint64(), False))
    given = _read(rows, wanted)
    for name in names:
        if name not in given.column_names:
            raise SchemaMismatchError(
                f"The rows returned for the conflicts lack the key column {name!r}.",
                hint=f"Return rows with all columns and {', '.join(names)}.",
                missing=[name],
            )
    cast = plan_cast(given.schema, wanted)
    parts = chain.from_iterable(map(cast.pieces, given.to_batches()))
    table = pa.Table.from_batches(parts, wanted)
    hint = "Return at most one row for each conflict, with its key."
    match = pair_with_conflicts(conflicts.keys(), table, names, hint=hint)
    ours = plan.clashes.ours
    left = np.ones(len(ours), bool)
    left[match.old] = False
    gone = ours[left & (ours != NOWHERE)]
    places = ours[match.old]
    order = np.argsort(places, kind="stable")  # rows that the target lacks (`NOWHERE`) sort last
    chosen = ak.cast(taken(table.select(schema.names), match.new[order]), schema)
    replaced = places[order][places[order] != NOWHERE]
    origins = plan.clashes.theirs[match.old[order]][len(replaced) :]
    return replace(
        plan.agreed,
        deleted=np.union1d(plan.agreed.deleted, gone),
        given=Given(chosen, replaced, _widths(plan, chosen, replaced), origins),
    )


def _widths(plan: ThreeWay, rows: pa.Table, places: Addresses) -> npt.NDArray[np.int64]:
    """Count for each row at ``places`` the values in which its new row differs."""
    widths = np.zeros(len(places), np.int64)
    columns = [pair for pair in stored_columns(plan) if not pair.is_lacked]
    side, step = read_rows(plan.ours, places, plan.ours.manifest.schema), rows_at_a_time(columns)
    for start in range(0, len(places), step):
        part = places[start : start + step]
        before = row_values(columns, side, part, new=True)
        for pair, values in zip(columns, before, strict=True):
            given = rows[pair.name].slice(start, len(part))
            widths[start : start + step] += differing(values, joined(given.chunks, pair.kind))
    return widths


def _read(rows: object, wanted: pa.Schema) -> pa.Table:
    """Return rows as a table; Python rows may have the hidden column ``_rowid``."""
    if isinstance(rows, list) and not rows:
        return wanted.empty_table()
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        rows = {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(*rows))}
    if not isinstance(rows, Mapping) or _ID not in rows:
        return as_reader(rows, None, wanted).read_all()
    others = {name: values for name, values in rows.items() if name != _ID}
    table = as_reader(others, None, wanted).read_all()
    return table.append_column(_ID, pa.array(rows[_ID], pa.uint64()))
