"""Whether a version meets a condition: which rows break it, or what its aggregates are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lancekit.format.field_marks import holds_blobs
from lancekit.format.row_address import fragment_ids
from lancekit.operations.constraints.changed import Changed
from lancekit.scan.expressions.aggregate import Tally
from lancekit.scan.expressions.condition import Condition, parse_condition
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragment_rows import ScanRequest
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.reader import FragmentReader, rows_without_columns
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.scan.outputs import plan_columns
from lancekit.scan.read import Read
from lancekit.scan.scan import Scan
from lancekit.versions.snapshot import Snapshot

__all__ = ["SAMPLE_ROWS", "Outcome", "condition_of", "evaluate", "holds", "try_changed"]

#: rows that are shown of those that break a condition
SAMPLE_ROWS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a condition.

    Attributes
    ----------
    holds
        Whether it is met.
    violations
        How many rows break it; ``None`` for a condition of the table.
    sample
        The first of these rows, at most 5, with all columns but blobs; for a condition of the
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

    Raises
    ------
    PredicateError
        The text does not fit the version's schema, or a value cannot be computed.

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


def try_changed(changed: Changed, condition: Condition) -> Outcome:
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
    outputs = plan_columns(sources[0].schema, columns)
    request = ScanRequest(outputs=outputs, predicate=predicate)
    return Scan(read=Read(sources), request=request)
