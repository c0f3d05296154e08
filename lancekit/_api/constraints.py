"""Constraints, which commits must satisfy, and a search for duplicate keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api._handle import Handle
from lancekit._api.answer import Answer
from lancekit._api.hinting import hinting_operators
from lancekit._api.listed import FramedByName
from lancekit._api.scanner import scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._choice import check_choice
from lancekit._display import Displayed
from lancekit._format.extensions import resolved
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.operations import UpdateConfig
from lancekit._format.paths import find_field, paths_by_id
from lancekit._format.schema import check_key_type
from lancekit._legible import shown
from lancekit._operations.checks.constraints import (
    PREFIX,
    Constraint,
    Existing,
    OnFail,
    condition_of,
    evaluate,
    stored_constraints,
)
from lancekit._operations.settings import update_settings
from lancekit._pipeline.diff.values import Seeds, digests
from lancekit._pipeline.frames import exact_frame
from lancekit._pipeline.hashed_keys import Hashes, known_rows
from lancekit._pipeline.key_counter import KeyCounter, key_words
from lancekit._pipeline.source_keys import key_columns
from lancekit._scan.expressions.objects import Expression
from lancekit._scan.expressions.texts import as_sql
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.order_by import parse_orderings, sorted_table
from lancekit._versions.references import parse_reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, NotFoundError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintResult:
    """The result of checking one constraint.

    Attributes
    ----------
    name, condition
        The constraint.
    holds
        True if the constraint is satisfied; ``None`` if it could not be checked.
    violations
        The number of rows that violate it; ``None`` for a table condition.
    sample
        The first violating rows, at most 5, without blobs.  For a table condition, its aggregates
        in one row.
    problem
        The reason why the constraint could not be checked; empty if it was checked.
    """

    name: str
    condition: str
    holds: bool | None
    violations: int | None = None
    sample: pa.Table | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ConstraintRun(Displayed):
    """The results of checking all constraints of a table on one version; iterable."""

    version: int
    branch: str | None
    results: tuple[ConstraintResult, ...]

    @property
    def holds(self) -> bool:
        """True if every constraint is satisfied."""
        return all(result.holds for result in self.results)

    def __iter__(self) -> Iterator[ConstraintResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def _plain(self) -> str:
        words = {True: "holds", False: "broken", None: "not tried"}
        found = ", ".join(f"{result.name!r} {words[result.holds]}" for result in self.results)
        return f"ConstraintRun(version {self.version}: {found or 'no constraints'})"


@hinting_operators("__call__ __getitem__ __delitem__ __setitem__")
@checked_methods
class Constraints(FramedByName):
    """The constraints of a table; `LanceDataset.constraints` returns them.

    A constraint is a condition on each row, or on the table.  A table condition uses ``count(*)``,
    ``count(x)``, ``count(DISTINCT x)``, ``sum(x)``, ``min(x)``, ``max(x)`` or ``avg(x)``, each
    optionally with ``FILTER (WHERE ...)``.  A condition that is null is satisfied.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2], "delay": [3, None]}, "memory://constrained-example")
    >>> _ = ds.constraints.add("delays are plausible", "delay >= -120")
    >>> _ = ds.constraints.add("one row a flight", "count(DISTINCT id) = count(*)", on_fail="warn")
    >>> [constraint.name for constraint in ds.constraints.list()]
    ['delays are plausible', 'one row a flight']
    >>> ds.constraints.run().holds
    True
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self.list())

    def _described(self) -> tuple[Iterable[object], tuple[str, ...]]:
        return self.list(), ("name", "condition", "on_fail", "existing")

    def list(self) -> tuple[Constraint, ...]:
        """Return the constraints of the handle's version, sorted by name."""
        return tuple(stored_constraints(self._snapshot.manifest.config).values())

    def add(
        self,
        name: str,
        condition: str | Expression,
        on_fail: OnFail = "refuse",
        existing: Existing = "refuse",
    ) -> Answer:
        """Add a constraint, and move the handle.

        From the new version on, every commit of lancekit checks the constraint.  A row condition is
        checked on the rows that the commit adds or changes, a table condition on the resulting
        table.  Concurrent commits are checked, too.

        Parameters
        ----------
        name
            The name of the constraint, unique in the table.
        condition
            SQL text, such as ``"delay >= -120"`` or ``"count(DISTINCT id) = count(*)"``, or an
            expression over a row, such as ``lk.col("delay") >= -120``.
        on_fail
            ``"refuse"``: a violating commit raises.  ``"warn"``: it warns and is committed.
        existing
            ``"refuse"``: a violation by existing rows is an error.  ``"allow"``: they are not
            checked.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        ConstraintViolationError
            Existing rows violate the constraint.
        PredicateError
            The condition does not parse, or does not fit the schema.
        InvalidArgumentError
            The name is not allowed, or is in use already.
        IncompatibleConflictError
            Another writer added a constraint of this name since the handle's version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://add-constraint-example")
        >>> _ = ds.constraints.add("positive", "x > 0")
        >>> ds.insert({"x": [-1]})
        Traceback (most recent call last):
        lancekit.errors.ConstraintViolationError: 1 row breaks 'positive' (x > 0).
          x = -1
        Correct the rows, or drop the constraint; nothing was committed.
        """
        config = self._snapshot.manifest.config
        if not name.strip() or name != name.strip() or len(name) > _LONGEST_NAME:
            raise InvalidArgumentError(
                f"A constraint name must be a string of 1 to {_LONGEST_NAME} characters without "
                f"spaces around it, got {shown(name)}.",
                constraint=name,
            )
        check_choice("on_fail", on_fail, get_args(OnFail))
        check_choice("existing", existing, get_args(Existing))
        if PREFIX + name in config:
            raise InvalidArgumentError(
                f"Constraint {name!r} already exists.",
                hint=f"Drop it first, ds.constraints.drop({name!r}), or choose another name.",
                constraint=name,
            )
        text = as_sql(condition)
        condition_of(self._snapshot, text)
        added = Constraint(name=name, condition=text, on_fail=on_fail, existing=existing)
        return self._configure("added", {added.key: added.encoded()}, name, text)

    def drop(self, name: str) -> Answer:
        """Remove a constraint, even if this release cannot read it, and move the handle.

        Raises
        ------
        NotFoundError
            There is no constraint of this name.
        """
        known = {constraint.name: constraint.condition for constraint in self.list()}
        if name not in known:
            hint = (
                f"The constraints are {', '.join(map(repr, known))}."
                if known
                else "There are no constraints."
            )
            raise NotFoundError(
                f"Version {self._handle.version} has no constraint {name!r}.",
                hint=hint,
                constraint=name,
            )
        return self._configure("dropped", {PREFIX + name: None}, name, known[name])

    def run(self, ref: int | str | tuple[str | None, int | None] | None = None) -> ConstraintRun:
        """Check the constraints of the handle's version on all rows.

        This finds violations by other libraries, and tells if a branch would pass.

        Parameters
        ----------
        ref
            The version whose rows are checked: a version of this branch, a tag, or a pair of branch
            and version; the handle's version by default.

        Raises
        ------
        VersionNotFoundError, TagNotFoundError, BranchNotFoundError
            The version, tag or branch does not exist.
        """
        location = self._handle._location
        tried = self._snapshot if ref is None else resolve(location, parse_reference(ref, location))
        return ConstraintRun(
            version=tried.version,
            branch=tried.branch,
            results=tuple(_result(tried, constraint) for constraint in self.list()),
        )

    @property
    def _snapshot(self) -> Snapshot:
        return self._handle._snapshot

    def _configure(
        self, done: str, changes: dict[str, str | None], name: str, condition: str
    ) -> Answer:
        operation = UpdateConfig(config_updates=UpdateMap(changes))
        given = {"done": done, "name": name, "condition": condition}
        return self._handle._done(
            "constraints", lambda snapshot: update_settings(snapshot, operation), **given
        )

    def _plain(self) -> str:
        return f"Constraints({[constraint.name for constraint in self.list()]})"


def _result(snapshot: Snapshot, constraint: Constraint) -> ConstraintResult:
    untried = ConstraintResult(name=constraint.name, condition=constraint.condition, holds=None)
    try:
        constraint.check_known()
        outcome = evaluate(snapshot, constraint.condition)
    except (InvalidArgumentError, UnsupportedFeatureError) as error:
        return replace(untried, problem=error.message)
    return replace(
        untried, holds=outcome.holds, violations=outcome.violations, sample=resolved(outcome.sample)
    )


# ---- `Duplicates`: the rows of a version with a duplicate key

#: the most rows that a result stores
_MOST = 100_000


@checked_methods
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Duplicates(Displayed):
    """The rows that share a key with another row; `LanceDataset.duplicates` returns them.

    Attributes
    ----------
    on
        The key columns.
    total
        The number of rows of the version.
    rows
        The number of rows that share their key with another row.
    keys
        The number of distinct keys of these rows.
    """

    on: tuple[str, ...]
    total: int
    rows: int
    keys: int
    _snapshot: Snapshot = field(repr=False)
    _found: pa.Table = field(repr=False)

    def to_table(self, limit: int | None = None) -> pa.Table:
        """Return the rows with all columns and ``_rowid``, sorted by key.

        At most 100,000 rows, or ``limit``, are returned.  ``ds.delete`` can remove rows by row id.
        """
        most = _MOST if limit is None else check_count("limit", limit)
        ids = self._found["_rowid"].slice(0, most).to_pylist()
        if not ids:
            options = ScanArguments(limit=0, with_row_id=True)
            return scan_of(self._snapshot, options).to_table()
        selected = f"_rowid IN ({', '.join(map(str, ids))})"
        options = ScanArguments(filter=selected, with_row_id=True)
        return _by_key(scan_of(self._snapshot, options).to_table(), self.on)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, as in `to_table`."""
        return exact_frame(self.to_table(limit), {})

    def _plain(self) -> str:
        return f"Duplicates({', '.join(self.on)}: {self.rows} of {self.total} rows)"


def duplicates_of(snapshot: Snapshot, on: Sequence[str] | None) -> Duplicates:
    """Find the rows that share a key; see `LanceDataset.duplicates`."""
    schema = snapshot.manifest.schema
    paths = paths_by_id(schema)
    key = tuple(paths[one.id] for one in schema.primary_key) if on is None else tuple(on)
    if not key:
        raise InvalidArgumentError(
            "The columns to compare are unknown, because the dataset has no primary key.",
            hint='Pass them: ds.duplicates(["id"]).',
        )
    for path in key:
        check_key_type(find_field(schema, path)[-1])
    with KeyCounter() as counter:
        for rows in _scanned(snapshot, key):
            counter.add(key_columns(rows, key))
        found = counter.repeated()
    candidates = _of(snapshot, key, found.words)
    num_keys, shared = _shared(candidates, key)
    exact = len(candidates) < _MOST
    return Duplicates(
        on=key,
        total=snapshot.manifest.num_rows,
        rows=len(shared) if exact else found.rows,
        keys=num_keys if exact else found.keys,
        _snapshot=snapshot,
        _found=shared,
    )


def _scanned(snapshot: Snapshot, key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    options = ScanArguments(columns=list(key), with_row_id=True)
    yield from scan_of(snapshot, options).to_batches()


def _of(snapshot: Snapshot, key: Sequence[str], words: Hashes) -> pa.Table:
    """Return the keys and row ids of rows whose key hash is repeated, up to `_MOST` rows."""
    found, missing = list[pa.RecordBatch](), _MOST
    for batch in _scanned(snapshot, key) if len(words) else ():
        columns = key_columns(batch, key)
        places = known_rows(columns)[np.isin(key_words(columns), words)][:missing]
        if len(places):
            found.append(ak.take(batch, places))
            missing -= len(places)
        if not missing:
            break
    schema = scan_of(snapshot, ScanArguments(columns=list(key), with_row_id=True)).projected_schema
    return pa.Table.from_batches(found, schema)


def _shared(rows: pa.Table, key: Sequence[str]) -> tuple[int, pa.Table]:
    """Return the number of keys that really occur more than once, and their rows, in order."""
    if not len(rows):
        return 0, rows
    found = digests(key_columns(rows, key), Seeds.drawn())
    both = np.stack([found.first, found.second], axis=1).view("V16").ravel()
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    shared = taken(rows, np.flatnonzero(counts[inverse] > 1))
    return int((counts > 1).sum()), _by_key(shared, key)


def _by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    names = [f"key{place}" for place in range(len(key))]
    keys = pa.table(key_columns(rows, key), names=names)
    numbered = keys.append_column("row", pa.array(np.arange(len(rows))))
    order = sorted_table(numbered, parse_orderings(names))
    return taken(rows, ak.combine_chunks(order["row"]).to_numpy())
