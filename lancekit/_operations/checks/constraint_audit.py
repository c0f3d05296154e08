"""Checks of a table's constraints before a commit, or before rows enter a log.

`Audit` runs for each attempt of a commit.  It compares the version that the attempt is built on
with the candidate version.  Both contain the changes of versions that landed meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import operations as ops
from lancekit._format.extensions import resolved
from lancekit._format.manifest import Manifest
from lancekit._format.paths import find_field, parse_path, paths_by_id
from lancekit._format.schema import LanceSchema
from lancekit._legible import clean, cut, literal, literals, plural, shown, warn
from lancekit._operations.checks.constraints import (
    SAMPLE_ROWS,
    Constraint,
    Outcome,
    changed_fragments,
    condition_of,
    evaluate,
    evaluate_changed,
    has_constraints,
    only_bases_differ,
    stored_constraints,
)
from lancekit._scan.expressions.condition import Condition
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    InvalidArgumentError,
    PredicateError,
    UnsupportedFeatureError,
)

#: the maximal length of a sample row in a message, in characters
_ROW_CHARACTERS = 200
#: operations that change neither rows nor columns
_NO_VALUES = (
    ops.Rewrite,
    ops.CreateIndex,
    ops.ReserveFragments,
    ops.UpdateMemWalState,
    ops.UpdateBases,
    ops.Clone,
)


@dataclass(slots=True)
class Audit:
    """Constraint checks of one commit, with the results of all its attempts so far."""

    _passed: set[Hashable] = field(default_factory=set)
    _warnings: list[str] = field(default_factory=list)

    def __call__(self, latest: Snapshot, manifest: Manifest, operation: ops.Operation) -> None:
        """Check the constraints of the version that would follow ``latest``.

        Raises ConstraintViolationError: rows that the commit adds or changes break a constraint,
            or the whole table does.
        Raises InvalidArgumentError: the commit drops or renames a column that a constraint names.
        Raises UnsupportedFeatureError: this release cannot read a constraint.
        Raises PredicateError: a condition fails for a row, for example by a division by zero.
        """
        self._warnings.clear()
        if not (has_constraints(manifest.config) or has_constraints(latest.manifest.config)):
            return
        if isinstance(operation, _NO_VALUES):
            return
        candidate = replace(latest, manifest=manifest, sections=None, mark=None)
        if isinstance(operation, ops.Update) and only_bases_differ(latest, candidate):
            return
        constraints = stored_constraints(manifest.config)
        before = stored_constraints(latest.manifest.config)
        if isinstance(operation, ops.Restore):
            self._warnings += [
                f"Version {operation.version} did not have the constraint {shown(name)}, so "
                "restoring it removed the constraint from the table."
                for name in before.keys() - constraints.keys()
            ]
            return
        for name, constraint in constraints.items():
            is_new = before.get(name) != constraint
            if is_new or not isinstance(operation, ops.UpdateConfig):
                self._check(constraint, latest, candidate, operation, is_new=is_new)

    def landed(self) -> None:
        """Issue the warnings of the attempt that landed."""
        for text in self._warnings:
            warn(text)

    def _check(
        self,
        constraint: Constraint,
        latest: Snapshot,
        candidate: Snapshot,
        operation: ops.Operation,
        *,
        is_new: bool,
    ) -> None:
        constraint.check_known()
        condition = _bound(constraint, latest, candidate, operation)
        if is_new and constraint.existing == "allow" and isinstance(operation, ops.UpdateConfig):
            return
        try:
            outcome = self._outcome(
                constraint, condition, None if is_new else latest, candidate, operation
            )
        except PredicateError as error:
            first, *others = error.message.split("\n")
            raise PredicateError(
                f"The constraint {constraint.name!r} cannot be computed: {first}",
                details=others,
                hint=error.hint,
                **{**error.context, "constraint": constraint.name},
            ) from error
        if outcome.holds:
            return
        if constraint.on_fail == "warn":
            self._warnings.append(_message(constraint, outcome))
        elif _repairs(operation, condition, latest):
            self._warnings.append(f"{_message(constraint, outcome)} It was broken before.")
        else:
            raise violation(constraint, outcome, first_columns(condition, candidate), is_new=is_new)

    def _outcome(
        self,
        constraint: Constraint,
        condition: Condition,
        before: Snapshot | None,
        candidate: Snapshot,
        operation: ops.Operation,
    ) -> Outcome:
        if not condition.of_rows:
            return evaluate(candidate, condition)
        changed = changed_fragments(before, candidate, operation, condition)
        key = (constraint, changed.files)
        if key in self._passed:  # checked in an earlier attempt
            return Outcome(True, 0, pa.table({}))
        outcome = evaluate_changed(changed, condition)
        if outcome.holds:
            self._passed.add(key)
        return outcome


def _repairs(operation: ops.Operation, condition: Condition, latest: Snapshot) -> bool:
    """Return True for a delete from a table that already broke a condition on the whole table.

    Such deletes are allowed, so that rows that another library wrote can be removed in steps.
    """
    deletes = isinstance(operation, ops.Delete) and not condition.of_rows
    return deletes and not evaluate(latest, condition).holds


def _bound(
    constraint: Constraint, latest: Snapshot, candidate: Snapshot, operation: ops.Operation
) -> Condition:
    """Bind a constraint to the schema of the candidate version."""
    try:
        condition = condition_of(candidate, constraint.condition)
    except PredicateError as error:
        try:
            condition_of(latest, constraint.condition)
        except PredicateError:
            first, *others = error.message.split("\n")
            raise UnsupportedFeatureError(
                f"The constraint {constraint.name!r} cannot be checked: {first}",
                details=others,
                hint=f"Drop it with ds.constraints.drop({constraint.name!r}), or commit with the "
                "release of lancekit that added it.",
                constraint=constraint.name,
                condition=constraint.condition,
            ) from error
        raise _lost_column(constraint, "drops or changes a column of", error.message) from error
    if not isinstance(operation, ops.Overwrite):
        _check_not_renamed(constraint, condition, latest, candidate.manifest.schema)
    return condition


def _check_not_renamed(
    constraint: Constraint, condition: Condition, latest: Snapshot, schema: LanceSchema
) -> None:
    """Raise if a name in a constraint refers to another column than before."""
    known = latest.manifest.schema
    paths = paths_by_id(schema)
    try:
        named = condition_of(latest, constraint.condition).columns
    except PredicateError:  # this commit adds the constraint and its columns
        return
    if named != condition.columns:  # a new column's name differs only in case
        changed = " and ".join(sorted(named - condition.columns))
        raise _lost_column(constraint, "adds a column with the name of a column of", f"{changed}.")
    for path in condition.columns:
        try:
            chain = find_field(known, path)
        except ColumnNotFoundError:
            continue
        now = paths.get(chain[-1].id)
        if now is not None and now != path:
            raise _lost_column(constraint, "renames a column of", f"{path} becomes {now}.")


def _lost_column(constraint: Constraint, does: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The commit {does} the constraint {constraint.name!r} ({constraint.condition}): "
        f"{reason.splitlines()[0]}",
        hint=f"Drop the constraint first, ds.constraints.drop({constraint.name!r}), and add it "
        "again with the new columns.",
        constraint=constraint.name,
        condition=constraint.condition,
    )


def _message(constraint: Constraint, outcome: Outcome) -> str:
    if outcome.violations is None:
        (values,) = outcome.sample.to_pylist()
        found = ", ".join(f"{clean(name)} is {literal(value)}" for name, value in values.items())
        return f"The table breaks {constraint.name!r} ({constraint.condition}): {found}."
    verb = "breaks" if outcome.violations == 1 else "break"
    rows = plural(outcome.violations, "row")
    return f"{rows} {verb} {constraint.name!r} ({constraint.condition})."


def first_columns(condition: Condition, candidate: Snapshot) -> list[str]:
    """Return the columns to show first of a row: the primary key, then the condition's columns."""
    key = [field.name for field in candidate.manifest.schema.primary_key]
    return [*key, *(parse_path(path)[0] for path in sorted(condition.columns))]


def _line(row: Mapping[str, object], first: Sequence[str]) -> str:
    names = dict.fromkeys([*(name for name in first if name in row), *row])
    return "  " + cut(literals({name: row[name] for name in names}), _ROW_CHARACTERS)


def violation(
    constraint: Constraint, outcome: Outcome, first: Sequence[str], *, is_new: bool
) -> ConstraintViolationError:
    """Return the error for rows that break a constraint, or for a table that does."""
    rows = resolved(outcome.sample).to_pylist()
    hint = "Correct the rows, or drop the constraint"
    if is_new:
        hint = 'Correct the rows first, or add it with existing="allow"'
    return ConstraintViolationError(
        _message(constraint, outcome),
        details=[] if outcome.violations is None else [*(_line(row, first) for row in rows), ""],
        hint=f"{hint}; nothing was committed.",
        constraint=constraint.name,
        condition=constraint.condition,
        violations=outcome.violations,
        sample=rows,
    )


# ---- constraints of rows in a log, which are outside of the table's versions
#
# A merge later commits these rows into the table, and its audit would fail on any row that breaks a
# constraint.  So the log refuses the row when it is written.


@dataclass(frozen=True, slots=True)
class RowConstraints:
    """Row conditions of a version, bound to its columns, with the columns to show first.

    The merge's commit checks the others: conditions of the table, and constraints that only warn.
    """

    conditions: tuple[tuple[Constraint, Condition, list[str]], ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> RowConstraints:
        """Return the row constraints of a version.

        Raises UnsupportedFeatureError: this release cannot read a constraint.
        Raises PredicateError: a condition does not fit the columns.
        """
        found = []
        for constraint in stored_constraints(snapshot.manifest.config).values():
            constraint.check_known()
            condition = condition_of(snapshot, constraint.condition)
            if condition.of_rows and constraint.on_fail == "refuse":
                found.append((constraint, condition, first_columns(condition, snapshot)))
        return cls(tuple(found))

    def check(self, rows: pa.RecordBatch) -> None:
        """Check rows with the version's columns.

        Raises ConstraintViolationError: some rows break a constraint.
        """
        for constraint, condition, first in self.conditions:
            broken = ak.filter(rows, condition.broken.mask(rows))
            if broken.num_rows:
                sample = pa.Table.from_batches([broken.slice(0, SAMPLE_ROWS)])
                outcome = Outcome(False, broken.num_rows, sample)
                raise violation(constraint, outcome, first, is_new=False)
