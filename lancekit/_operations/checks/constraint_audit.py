"""The constraints of a table, tried on what a commit or a log is about to get.

An audit is asked for each attempt of a commit, with the version that the attempt is built on and
the one that it would put.  What versions that landed in between did is in both.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import operations as ops
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
    has_constraints,
    only_moved,
    stored_constraints,
    try_changed,
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

#: what a row of a sample takes of a message, at most
_ROW_CHARACTERS = 200
#: what leaves the values of all rows, and the columns, as they are
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
    """What one commit has tried so far, over all of its attempts."""

    _met: set[Hashable] = field(default_factory=set)
    _warnings: list[str] = field(default_factory=list)

    def __call__(self, latest: Snapshot, manifest: Manifest, operation: ops.Operation) -> None:
        """Try what has to be met by the version that would follow ``latest``.

        Raises ConstraintViolationError: rows that it adds or changes break a constraint, or the
            table does.
        Raises InvalidArgumentError: it drops or renames a column that a constraint names.
        Raises UnsupportedFeatureError: a constraint cannot be read by this release.
        Raises PredicateError: a condition cannot be computed for a row, such as a division by zero.
        """
        self._warnings.clear()
        if not (has_constraints(manifest.config) or has_constraints(latest.manifest.config)):
            return
        if isinstance(operation, _NO_VALUES):
            return
        candidate = replace(latest, manifest=manifest, sections=None, mark=None)
        if isinstance(operation, ops.Update) and only_moved(latest, candidate):
            return
        constraints = stored_constraints(manifest.config)
        before = stored_constraints(latest.manifest.config)
        if isinstance(operation, ops.Restore):
            self._warnings += [
                f"Version {operation.version} had no constraint {shown(name)}, so that the table "
                "has none of that name any more."
                for name in before.keys() - constraints.keys()
            ]
            return
        for name, constraint in constraints.items():
            is_new = before.get(name) != constraint
            if is_new or not isinstance(operation, ops.UpdateConfig):
                self._try(constraint, latest, candidate, operation, is_new=is_new)

    def landed(self) -> None:
        """Give the warnings of the attempt that landed."""
        for text in self._warnings:
            warn(text)

    def _try(
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
            self._warnings.append(_says(constraint, outcome))
        elif _repairs(operation, condition, latest):
            self._warnings.append(f"{_says(constraint, outcome)} It did not before, either.")
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
        if key in self._met:  # by an earlier attempt
            return Outcome(True, 0, pa.table({}))
        outcome = try_changed(changed, condition)
        if outcome.holds:
            self._met.add(key)
        return outcome


def _repairs(operation: ops.Operation, condition: Condition, latest: Snapshot) -> bool:
    """Tell whether rows are taken out of a table that broke a condition before.

    So rows that another library let in can be deleted, a few at a time.
    """
    takes_away = isinstance(operation, ops.Delete) and not condition.of_rows
    return takes_away and not evaluate(latest, condition).holds


def _bound(
    constraint: Constraint, latest: Snapshot, candidate: Snapshot, operation: ops.Operation
) -> Condition:
    """Bind a constraint to the schema of the version that would be."""
    try:
        condition = condition_of(candidate, constraint.condition)
    except PredicateError as error:
        try:
            condition_of(latest, constraint.condition)
        except PredicateError:
            first, *others = error.message.split("\n")
            raise UnsupportedFeatureError(
                f"The constraint {constraint.name!r} cannot be tried: {first}",
                details=others,
                hint="Drop it, or commit with the release of lancekit that added it: "
                f"ds.constraints.drop({constraint.name!r}).",
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
    """Refuse a column that is called by a constraint, and was another one before."""
    known = latest.manifest.schema
    paths = paths_by_id(schema)
    try:
        named = condition_of(latest, constraint.condition).columns
    except PredicateError:  # this very commit adds it, and the columns
        return
    if named != condition.columns:  # a name in other letters is that of a new column, too
        changed = " and ".join(sorted(named - condition.columns))
        raise _lost_column(constraint, "adds a column called like one of", f"{changed}.")
    for path in condition.columns:
        try:
            chain = find_field(known, path)
        except ColumnNotFoundError:
            continue
        now = paths.get(chain[-1].id)
        if now is not None and now != path:
            raise _lost_column(constraint, "renames a column of", f"{path} becomes {now}")


def _lost_column(constraint: Constraint, does: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The commit {does} the constraint {constraint.name!r} ({constraint.condition}): "
        f"{reason.splitlines()[0]}",
        hint=f"Drop the constraint first, ds.constraints.drop({constraint.name!r}), and add it "
        "again in terms of the new columns.",
        constraint=constraint.name,
        condition=constraint.condition,
    )


def _says(constraint: Constraint, outcome: Outcome) -> str:
    if outcome.violations is None:
        (values,) = outcome.sample.to_pylist()
        found = ", ".join(f"{clean(name)} is {literal(value)}" for name, value in values.items())
        return f"The table breaks {constraint.name!r} ({constraint.condition}): {found}."
    verb = "breaks" if outcome.violations == 1 else "break"
    rows = plural(outcome.violations, "row")
    return f"{rows} {verb} {constraint.name!r} ({constraint.condition})."


def first_columns(condition: Condition, candidate: Snapshot) -> list[str]:
    """Return the columns that are shown first of a row: what tells it, and what is wrong."""
    key = [field.name for field in candidate.manifest.schema.primary_key]
    return [*key, *(parse_path(path)[0] for path in sorted(condition.columns))]


def _line(row: Mapping[str, object], first: Sequence[str]) -> str:
    names = dict.fromkeys([*(name for name in first if name in row), *row])
    return "  " + cut(literals({name: row[name] for name in names}), _ROW_CHARACTERS)


def violation(
    constraint: Constraint, outcome: Outcome, first: Sequence[str], *, is_new: bool
) -> ConstraintViolationError:
    """Return the error for rows, or a table, that break a constraint."""
    rows = outcome.sample.to_pylist()
    hint = "Correct the rows, or drop the constraint"
    if is_new:
        hint = 'Correct the rows first, or add it with existing="allow"'
    return ConstraintViolationError(
        _says(constraint, outcome),
        details=[] if outcome.violations is None else [*(_line(row, first) for row in rows), ""],
        hint=f"{hint}; nothing was committed.",
        constraint=constraint.name,
        condition=constraint.condition,
        violations=outcome.violations,
        sample=rows,
    )


# ---- what rows have to meet that are written beside the versions of a table
#
# A merge brings them into one, and its commit is held against the constraints: rows that break one
# would be in its way for ever, so they are refused when they come.


@dataclass(frozen=True, slots=True)
class RowConstraints:
    """The conditions of rows that a version has, bound to its columns, and what is shown first.

    Those of the table are tried when rows come into it, and so are those that only warn.
    """

    conditions: tuple[tuple[Constraint, Condition, list[str]], ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> RowConstraints:
        """Return those of a version.

        Raises UnsupportedFeatureError: one cannot be read by this release.
        Raises PredicateError: one does not fit the columns.
        """
        found = []
        for constraint in stored_constraints(snapshot.manifest.config).values():
            constraint.check_known()
            condition = condition_of(snapshot, constraint.condition)
            if condition.of_rows and constraint.on_fail == "refuse":
                found.append((constraint, condition, first_columns(condition, snapshot)))
        return cls(tuple(found))

    def check(self, rows: pa.RecordBatch) -> None:
        """Try them on rows with the version's columns.

        Raises ConstraintViolationError: some rows break one.
        """
        for constraint, condition, first in self.conditions:
            broken = ak.filter(rows, condition.broken.mask(rows))
            if broken.num_rows:
                sample = pa.Table.from_batches([broken.slice(0, SAMPLE_ROWS)])
                outcome = Outcome(False, broken.num_rows, sample)
                raise violation(constraint, outcome, first, is_new=False)
