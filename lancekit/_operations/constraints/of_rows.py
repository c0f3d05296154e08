"""What rows have to meet that are written beside the versions of a table.

A merge brings them into one, and its commit is held against the constraints: rows that break one
would be in its way for ever, so they are refused when they come.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._operations.constraints.audit import first_columns, violation
from lancekit._operations.constraints.evaluate import SAMPLE_ROWS, Outcome, condition_of
from lancekit._operations.constraints.stored import Constraint, stored_constraints
from lancekit._scan.expressions.condition import Condition
from lancekit._versions.snapshot import Snapshot

__all__ = ["RowConstraints"]


@dataclass(frozen=True, slots=True)
class RowConstraints:
    """The conditions of rows that a version has, bound to its columns, and what is shown first.

    Those of the table are tried when rows come into it, and so are those that only warn.
    """

    conditions: tuple[tuple[Constraint, Condition, list[str]], ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> RowConstraints:
        """Return those of a version.

        Raises
        ------
        UnsupportedFeatureError
            One cannot be read by this release.
        PredicateError
            One does not fit the columns.
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

        Raises
        ------
        ConstraintViolationError
            Some rows break one.
        """
        for constraint, condition, first in self.conditions:
            broken = ak.filter(rows, condition.broken.mask(rows))
            if broken.num_rows:
                sample = pa.Table.from_batches([broken.slice(0, SAMPLE_ROWS)])
                outcome = Outcome(False, broken.num_rows, sample)
                raise violation(constraint, outcome, first, is_new=False)
