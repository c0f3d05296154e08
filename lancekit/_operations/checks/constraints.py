"""Constraints: where a table keeps them, and whether a version meets a condition."""

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

#: rows that are shown of those that break a condition
SAMPLE_ROWS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a condition.

    holds: whether it is met.
    violations: how many rows break it; ``None`` for a condition of the table.
    sample: the first of these rows, at most 5, with all columns but blobs; for a condition of the
        table, one row with its aggregates.
    """

    holds: bool
    violations: int | None
    sample: pa.Table


def condition_of(snapshot: Snapshot, text: str) -> Condition:
    """Bind a condition to the schema of a version; ``PredicateError`` as `parse_condition`."""
    return parse_condition(text, blob_view(snapshot.manifest.schema).to_arrow())


def holds(snapshot: Snapshot, condition: str | Condition) -> bool:
    """Tell whether a version meets a condition.

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
    """Try a condition on all rows of a version; errors as `holds`."""
    bound = condition_of(snapshot, condition) if isinstance(condition, str) else condition
    sources = tuple(fragment_sources(snapshot, blob_view(snapshot.manifest.schema)))
    return _evaluate_rows(sources, bound) if bound.of_rows else _evaluate_table(sources, bound)


def try_changed(changed: _Changed, condition: Condition) -> Outcome:
    """Try a condition of rows on those that a commit adds or changes."""
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


def _evaluate_rows(chosen: tuple[FragmentSource, ...], condition: Condition) -> Outcome:
    if not chosen:
        return Outcome(True, 0, pa.table({}))
    count, holders = 0, set[int]()
    for found in _scan(chosen, condition.broken, ["_rowaddr"]).tables():
        if count < SAMPLE_ROWS:
            addresses = found.column(0).to_numpy()[:SAMPLE_ROWS]
            holders |= set(fragment_ids(addresses).tolist())
        count += found.num_rows
    if not count:
        return Outcome(True, 0, pa.table({}))
    holding = [source for source in chosen if source.fragment.id in holders]
    sample = replace(
        _scan(holding, condition.broken, _shown(chosen[0])), limit=SAMPLE_ROWS
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
    """Yield what the aggregates of a condition look at."""
    if all(not one.arguments and one.where is None for one in condition.aggregates):
        yield rows_without_columns(sum(source.num_rows for source in sources))
    elif sources:
        # constants alone do not say how many rows there are
        yield from _scan(sources, None, sorted(condition.columns) or ["_rowaddr"]).tables()


def _scan(
    sources: Sequence[FragmentSource], predicate: Predicate | None, columns: Sequence[str]
) -> Scan:
    request = ScanRequest(outputs=plan_columns(sources[0].schema, columns), predicate=predicate)
    return Scan(read=Read(sources), request=request)


# ---- which rows a commit adds or changes, as far as the columns of a condition go

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Patched:
    """A fragment whose rows stand where they stood, with columns that were written anew."""

    old: FragmentSource
    new: FragmentSource

    def broken(self, condition: Condition) -> Offsets:
        """Return the rows that break a condition, and did not have these values before."""
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
    """What a commit brings: fragments with nothing but new rows, and patched ones."""

    new: tuple[FragmentSource, ...]
    patched: tuple[_Patched, ...]

    @property
    def files(self) -> Hashable:
        """What tells it from others, whatever ids its fragments were given."""
        return (
            frozenset(map(_files, self.new)),
            frozenset((_files(pair.old), _files(pair.new)) for pair in self.patched),
        )


def _files(source: FragmentSource) -> Hashable:
    return tuple(map(str, source.files))


def changed_fragments(
    latest: Snapshot | None, candidate: Snapshot, operation: Operation, condition: Condition
) -> _Changed:
    """Return which fragments of a version have rows that the one before had not.

    latest: the version before; ``None`` to look at all rows.
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


def only_moved(latest: Snapshot, candidate: Snapshot) -> bool:
    """Tell whether two versions have the same files, in other places perhaps."""
    before, after = latest.manifest.fragments, candidate.manifest.fragments
    known = set(before.encoded)
    return len(before) == len(after) and all(
        now in known or _nowhere(old) == _nowhere(new)
        for now, old, new in zip(after.encoded, before, after, strict=True)
    )


def _nowhere(fragment: Fragment) -> Fragment:
    """Return a fragment without the places of its files."""
    files = tuple(replace(file, base_id=None) for file in fragment.files)
    deletion = fragment.deletion_file
    return replace(
        fragment, files=files, deletion_file=deletion and replace(deletion, base_id=None)
    )


def _field_ids(schema: LanceSchema, columns: Iterable[str]) -> frozenset[int]:
    """Return the ids of columns, of what they are in, and of what is in them."""
    chains = [find_field(schema, path) for path in columns]
    above = {field.id for chain in chains for field in chain}
    return frozenset(above.union(*({f.id for f in chain[-1].walk()} for chain in chains)))


def _stored(fragment: Fragment, ids: frozenset[int]) -> Mapping[int, Hashable]:
    """Return where the values of fields lie; a copy in another place has the file's name."""
    return {
        id_: (file.path, column)
        for file, columns in zip(fragment.files, columns_of_files(fragment), strict=True)
        for id_, column in columns.items()
        if id_ in ids
    }


# ---- constraints in a table's config, where every version and every branch carries them on
#
# Each is an entry ``lancekit.constraints.<name>``, whose value is JSON: ``version`` (1),
# ``condition``, ``on_fail`` and ``existing``.  A release that knows more writes a higher version,
# and this one refuses by name to commit what it cannot try.

PREFIX = "lancekit.constraints."
_VERSION = 1

#: what becomes of rows that do not meet a constraint, and of those that are there already
OnFail = Literal["refuse", "warn"]
Existing = Literal["refuse", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A condition by its name.

    Attributes
    ----------
    name
        What errors call it.
    condition
        The text; empty if `unknown` says why it cannot be read.
    on_fail
        Whether a commit that does not meet it is refused, or lands with a warning.
    existing
        ``"allow"`` if rows that were there before may break it.
    unknown
        Why this release cannot read what is stored; empty if it can.
    """

    name: str
    condition: str
    on_fail: OnFail = "refuse"
    existing: Existing = "refuse"
    unknown: str = ""

    @property
    def key(self) -> str:
        """The key of the config that it is stored under."""
        return PREFIX + self.name

    def encoded(self) -> str:
        """Return what is stored."""
        return json.dumps(
            {
                "version": _VERSION,
                "condition": self.condition,
                "on_fail": self.on_fail,
                "existing": self.existing,
            }
        )

    def check_known(self) -> None:
        """Raise ``UnsupportedFeatureError`` if this release cannot read it."""
        if self.unknown:
            raise UnsupportedFeatureError(
                f"The constraint {self.name!r} cannot be tried: {self.unknown}.",
                hint="Commit with the release of lancekit that added it, or drop it: "
                f"ds.constraints.drop({self.name!r}).",
                constraint=self.name,
            )


def has_constraints(config: Mapping[str, str]) -> bool:
    """Tell whether a table has any: that is all that a commit to another one pays."""
    return any(key.startswith(PREFIX) for key in config)


def stored_constraints(config: Mapping[str, str]) -> dict[str, Constraint]:
    """Return the constraints of a config by their names, in order."""
    names = sorted(key.removeprefix(PREFIX) for key in config if key.startswith(PREFIX))
    return {name: _decoded(name, config[PREFIX + name]) for name in names}


def _decoded(name: str, text: str) -> Constraint:
    try:
        values: object = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return _unknown(name, f"{shown(text)} is stored for it")
    if values.get("version") != _VERSION:
        return _unknown(name, f"it is of version {shown(values.get('version'))}, not {_VERSION}")
    condition, on_fail = values.get("condition"), values.get("on_fail")
    existing = values.get("existing", "refuse")
    if not isinstance(condition, str):
        return _unknown(name, f"its condition is {shown(condition)}")
    if on_fail not in get_args(OnFail) or existing not in get_args(Existing):
        return _unknown(name, f"it says on_fail={shown(on_fail)}, existing={shown(existing)}")
    return Constraint(
        name=name,
        condition=condition,
        on_fail=cast("OnFail", on_fail),
        existing=cast("Existing", existing),
    )


def _unknown(name: str, why: str) -> Constraint:
    return Constraint(name=name, condition="", unknown=why)
