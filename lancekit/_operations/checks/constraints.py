"""Constraints: their storage in a table's config, and tests of a version against a condition."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.field_marks import holds_blobs
from lancekit._format.fragment import Fragment, columns_of_files
from lancekit._format.operations import Operation, Overwrite
from lancekit._format.paths import find_field
from lancekit._format.row_address import fragment_ids
from lancekit._format.schema import LanceSchema
from lancekit._legible import shown
from lancekit._pipeline.diff.values import differing
from lancekit._scan.expressions.condition import Condition, Tally, parse_condition
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import ScanRequest, selected_rows
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader, Offsets, rows_without_columns
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import UnsupportedFeatureError

#: the number of rows to show that break a condition
SAMPLE_ROWS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a condition on a version or on changed rows.

    holds: True if the condition is met.
    violations: the number of rows that break it, ``None`` for a condition of the table.
    sample: the first of these rows, at most 5, with all columns except blobs.  For a condition of
        the table, one row with its aggregates.
    """

    holds: bool
    violations: int | None
    sample: pa.Table


def condition_of(snapshot: Snapshot, text: str) -> Condition:
    """Bind a condition to the schema of a version; raise the errors of `parse_condition`."""
    return parse_condition(text, blob_view(snapshot.manifest.schema).to_arrow())


def holds(snapshot: Snapshot, condition: str | Condition) -> bool:
    """Return True if a version meets a condition.

    Raises PredicateError: the text does not fit the version's schema, or a value cannot be
        computed.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2, 2]}, "memory://holds-example")
    >>> holds(ds._snapshot, "x > 0"), holds(ds._snapshot, "count(DISTINCT x) = count(*)")
    (True, False)
    """
    return evaluate(snapshot, condition).holds


def evaluate(snapshot: Snapshot, condition: str | Condition) -> Outcome:
    """Evaluate a condition on all rows of a version; raise the errors of `holds`."""
    bound = condition_of(snapshot, condition) if isinstance(condition, str) else condition
    sources = tuple(fragment_sources(snapshot, blob_view(snapshot.manifest.schema)))
    return _evaluate_rows(sources, bound) if bound.of_rows else _evaluate_table(sources, bound)


def evaluate_changed(changed: _Changed, condition: Condition) -> Outcome:
    """Evaluate a row condition on the rows that a commit adds or changes."""
    outcome = _evaluate_rows(changed.new, condition)
    sample, count = outcome.sample, outcome.violations or 0
    for pair in changed.patched:
        rows = pair.broken(condition)
        if len(rows) and not count:
            sample = FragmentReader(pair.new).read(_shown(pair.new), rows[:SAMPLE_ROWS])
        count += len(rows)
    return Outcome(not count, count, sample)


def _shown(source: FragmentSource) -> list[str]:
    return [field.name for field in source.schema.fields if not holds_blobs(field.metadata)]


def _evaluate_rows(sources: tuple[FragmentSource, ...], condition: Condition) -> Outcome:
    if not sources:
        return Outcome(True, 0, pa.table({}))
    count, sampled = 0, set[int]()
    for found in _scan(sources, condition.broken, ["_rowaddr"]).tables():
        if count < SAMPLE_ROWS:
            addresses = found.column(0).to_numpy()[:SAMPLE_ROWS]
            sampled |= set(fragment_ids(addresses).tolist())
        count += found.num_rows
    if not count:
        return Outcome(True, 0, pa.table({}))
    relevant = [source for source in sources if source.fragment.id in sampled]
    sample = replace(
        _scan(relevant, condition.broken, _shown(sources[0])), limit=SAMPLE_ROWS
    ).to_table()
    return Outcome(False, count, sample)


def _evaluate_table(sources: Sequence[FragmentSource], condition: Condition) -> Outcome:
    tallies = [Tally(aggregate) for aggregate in condition.aggregates]
    for rows in _inputs(sources, condition):
        for tally in tallies:
            tally.add(rows)
    values = [tally.value() for tally in tallies]
    arrays = [pa.array([value], value.type) for value in values]
    shown = pa.table(arrays, names=[aggregate.text for aggregate in condition.aggregates])
    return Outcome(condition.met_by(values), None, shown)


def _inputs(sources: Sequence[FragmentSource], condition: Condition) -> Iterator[pa.Table]:
    """Yield the rows that the aggregates of a condition read."""
    if all(not one.arguments and one.where is None for one in condition.aggregates):
        yield rows_without_columns(sum(source.num_rows for source in sources))
    elif sources:
        # without a column, a scan would not give the number of rows
        yield from _scan(sources, None, sorted(condition.columns) or ["_rowaddr"]).tables()


def _scan(
    sources: Sequence[FragmentSource], predicate: Predicate | None, columns: Sequence[str]
) -> Scan:
    request = ScanRequest(outputs=plan_columns(sources[0].schema, columns), predicate=predicate)
    return Scan(read=Read(sources), request=request)


# ---- rows that a commit adds, or whose values it changes in the columns of a condition

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Patched:
    """A fragment with rewritten columns, whose rows keep their offsets."""

    old: FragmentSource
    new: FragmentSource

    def broken(self, condition: Condition) -> Offsets:
        """Return the rows that break a condition and whose values changed."""
        reader = FragmentReader(self.new)
        rows = selected_rows(reader, condition.broken)
        return rows[self._differ(reader, condition, rows)] if len(rows) else rows

    def _differ(self, reader: FragmentReader, condition: Condition, rows: Offsets) -> Mask:
        names = sorted(condition.columns)
        new, old = reader.read(names, rows), FragmentReader(self.old).read(names, rows)
        out = np.zeros(len(rows), np.bool_)
        for ours, theirs in zip(new.columns, old.columns, strict=True):
            if ours.type != theirs.type:  # the column was cast
                return np.ones(len(rows), np.bool_)
            out |= differing(ak.combine_chunks(theirs), ak.combine_chunks(ours))
        return out


@dataclass(frozen=True, slots=True)
class _Changed:
    """Fragments that a commit changes: fragments with only new rows, and patched fragments."""

    new: tuple[FragmentSource, ...]
    patched: tuple[_Patched, ...]

    @property
    def files(self) -> Hashable:
        """Key of the changed data files, independent of fragment ids."""
        return (
            frozenset(map(_files, self.new)),
            frozenset((_files(pair.old), _files(pair.new)) for pair in self.patched),
        )


def _files(source: FragmentSource) -> Hashable:
    return tuple(map(str, source.files))


def changed_fragments(
    latest: Snapshot | None, candidate: Snapshot, operation: Operation, condition: Condition
) -> _Changed:
    """Return the fragments of a candidate version that may have new rows or changed values.

    latest: the version before; with ``None`` all rows count as new.
    """
    sources = fragment_sources(candidate, blob_view(candidate.manifest.schema))
    if latest is None or isinstance(operation, Overwrite):
        return _Changed(tuple(sources), ())
    known = set(latest.manifest.fragments.encoded)
    places = [
        place
        for place, encoded in enumerate(candidate.manifest.fragments.encoded)
        if encoded not in known
    ]
    before = fragment_sources(latest, blob_view(latest.manifest.schema))
    by_id = {id_: place for place, id_ in enumerate(latest.manifest.fragments.ids.tolist())}
    ids = _field_ids(candidate.manifest.schema, condition.columns)
    new, patched = [], []
    for place in places:
        source = sources[place]
        old = before[by_id[source.fragment.id]] if source.fragment.id in by_id else None
        if old is None or old.fragment.physical_rows != source.fragment.physical_rows:
            new.append(source)
        elif _stored(old.fragment, ids) != _stored(source.fragment, ids):
            patched.append(_Patched(old, source))
    return _Changed(tuple(new), tuple(patched))


def only_bases_differ(latest: Snapshot, candidate: Snapshot) -> bool:
    """Return True if two versions have the same files, except for their base paths."""
    before, after = latest.manifest.fragments, candidate.manifest.fragments
    known = set(before.encoded)
    return len(before) == len(after) and all(
        now in known or _without_bases(old) == _without_bases(new)
        for now, old, new in zip(after.encoded, before, after, strict=True)
    )


def _without_bases(fragment: Fragment) -> Fragment:
    """Return a fragment whose files have no base path."""
    files = tuple(replace(file, base_id=None) for file in fragment.files)
    deletion = fragment.deletion_file
    return replace(
        fragment, files=files, deletion_file=deletion and replace(deletion, base_id=None)
    )


def _field_ids(schema: LanceSchema, columns: Iterable[str]) -> frozenset[int]:
    """Return the ids of columns, of their parents and of their children."""
    chains = [find_field(schema, path) for path in columns]
    above = {field.id for chain in chains for field in chain}
    return frozenset(above.union(*({f.id for f in chain[-1].walk()} for chain in chains)))


def _stored(fragment: Fragment, ids: frozenset[int]) -> Mapping[int, Hashable]:
    """Return the file and column that store each field; a copy elsewhere has the file's name."""
    return {
        id_: (file.path, column)
        for file, columns in zip(fragment.files, columns_of_files(fragment), strict=True)
        for id_, column in columns.items()
        if id_ in ids
    }


# ---- constraints in a table's config, which every later version and branch inherits
#
# Each constraint is an entry ``lancekit.constraints.<name>``, whose value is JSON: ``version`` (1),
# ``condition``, ``on_fail`` and ``existing``.  A newer release may write a higher version.  This
# release then refuses to commit, and names the constraint that it cannot check.

PREFIX = "lancekit.constraints."
_VERSION = 1

#: how to treat new rows that break a constraint, and existing rows that do
OnFail = Literal["refuse", "warn"]
Existing = Literal["refuse", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A named condition that a table's rows must meet.

    Attributes
    ----------
    name
        The name, which errors quote.
    condition
        The text; empty if this release cannot read the constraint.
    on_fail
        ``"refuse"`` to refuse a commit that breaks it, ``"warn"`` to warn after such a commit.
    existing
        ``"allow"`` if rows older than the constraint may break it.
    unknown
        The reason why this release cannot read the stored entry; empty if it can.
    """

    name: str
    condition: str
    on_fail: OnFail = "refuse"
    existing: Existing = "refuse"
    unknown: str = ""

    @property
    def key(self) -> str:
        """The constraint's key in the table's config."""
        return PREFIX + self.name

    def encoded(self) -> str:
        """Return the constraint's value in the table's config: JSON."""
        return json.dumps(
            {
                "version": _VERSION,
                "condition": self.condition,
                "on_fail": self.on_fail,
                "existing": self.existing,
            }
        )

    def check_known(self) -> None:
        """Raise ``UnsupportedFeatureError`` if this release cannot read the constraint."""
        if self.unknown:
            raise UnsupportedFeatureError(
                f"The constraint {self.name!r} cannot be checked: {self.unknown}.",
                hint="Commit with the release of lancekit that added it, or drop it: "
                f"ds.constraints.drop({self.name!r}).",
                constraint=self.name,
            )


def has_constraints(config: Mapping[str, str]) -> bool:
    """Return True if a config has constraints: the only cost for a table without them."""
    return any(key.startswith(PREFIX) for key in config)


def stored_constraints(config: Mapping[str, str]) -> dict[str, Constraint]:
    """Return the constraints of a config by name, sorted."""
    names = sorted(key.removeprefix(PREFIX) for key in config if key.startswith(PREFIX))
    return {name: _decoded(name, config[PREFIX + name]) for name in names}


def _decoded(name: str, text: str) -> Constraint:
    try:
        values: object = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return _unknown(name, f"its stored form is {shown(text)}")
    if values.get("version") != _VERSION:
        return _unknown(name, f"it has version {shown(values.get('version'))}, not {_VERSION}")
    condition, on_fail = values.get("condition"), values.get("on_fail")
    existing = values.get("existing", "refuse")
    if not isinstance(condition, str):
        return _unknown(name, f"its condition is {shown(condition)}")
    if on_fail not in get_args(OnFail) or existing not in get_args(Existing):
        return _unknown(name, f"it has on_fail={shown(on_fail)}, existing={shown(existing)}")
    return Constraint(
        name=name,
        condition=condition,
        on_fail=cast("OnFail", on_fail),
        existing=cast("Existing", existing),
    )


def _unknown(name: str, why: str) -> Constraint:
    return Constraint(name=name, condition="", unknown=why)
