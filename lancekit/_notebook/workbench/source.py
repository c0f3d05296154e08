"""The rows of a merge's source, held for as long as rules are chosen; what is odd about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit._format.paths import top_of
from lancekit._pipeline.casts.rules import find_rule
from lancekit._pipeline.engine.engine import choose_source
from lancekit._pipeline.engine.held_rows import in_memory, is_replayable, owned
from lancekit._pipeline.engine.inputs import as_reader, is_spark_dataframe
from lancekit._pipeline.keys.source_keys import SourceKeys, key_columns
from lancekit._pipeline.source import open_source
from lancekit.errors import DuplicateKeysError

__all__ = ["Drift", "Held", "Odd", "drift", "hold"]


@dataclass(frozen=True, slots=True)
class Odd:
    """What is odd about the keys of a source.

    Attributes
    ----------
    nulls
        How many rows have a null in the key.
    repeated
        Some keys that occur more than once.
    """

    nulls: int = 0
    repeated: tuple[tuple[object, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """A merge's source.

    Attributes
    ----------
    rows
        What every preview and the merge are given.
    schema
        Its columns.
    on_demand
        Whether a look at it is work on Spark.
    cast
        What the rows are still to be cast to.
    """

    rows: Any
    schema: pa.Schema
    on_demand: bool
    cast: pa.Schema | None = None
    _odd: dict[tuple[str, ...], Odd] = field(default_factory=dict)

    def odd(self, on: tuple[str, ...]) -> Odd:
        """Return what is odd about a key; nothing is known of rows that are not in memory."""
        if on not in self._odd:
            table = self.rows if isinstance(self.rows, pa.Table) else None
            there = {top_of(name) if name not in self.schema.names else name for name in on}
            known = table is not None and there <= set(self.schema.names)
            self._odd[on] = _odd(table, on) if known else Odd()
        return self._odd[on]


def hold(data: object, schema: pa.Schema | None, like: pa.Schema) -> Held:
    """Hold rows: those in memory as an Arrow table, others as they are.

    Parameters
    ----------
    data, schema, like
        As in `open_source`.

    Raises
    ------
    InvalidTypeError, SchemaMismatchError
        As of `open_source`.
    """
    on_demand = choose_source(data, is_frame=is_spark_dataframe(data)).engine == "spark"
    if on_demand or (is_replayable(data) and not in_memory(data)):
        with open_source(data, schema, like) as source:
            return Held(data, source.schema, on_demand, schema)
    rows = owned(data, schema, like)
    if schema is not None or not isinstance(rows, pa.Table):
        rows = as_reader(rows, schema, like).read_all()
    return Held(rows, rows.schema, on_demand=False)


def _odd(rows: Any, on: tuple[str, ...]) -> Odd:
    columns = key_columns(rows, on)
    nulls = np.zeros(rows.num_rows, bool)
    for column in columns:
        nulls |= column.is_null().to_numpy(zero_copy_only=False)
    repeated: tuple[tuple[object, ...], ...] = ()
    try:
        SourceKeys.choose(on, columns)
    except DuplicateKeysError as error:
        repeated = tuple(error.context["keys"])
    except (pa.ArrowException, TypeError):
        pass  # of this type there are no keys, which a preview says better
    return Odd(int(nulls.sum()), repeated)


@dataclass(frozen=True, slots=True)
class Drift:
    """A column that source and dataset do not have alike; what is not there has no type."""

    column: str
    source: pa.DataType | None
    dataset: pa.DataType | None

    @property
    def fits(self) -> bool:
        """Whether a merge can do with it."""
        if self.source is None or self.dataset is None:
            return self.source is None
        return find_rule(self.source, self.dataset) is not None


def drift(source: pa.Schema, dataset: pa.Schema) -> tuple[Drift, ...]:
    """Return the columns that differ: first those of the source, then what it lacks."""
    kinds = {field_.name: field_.type for field_ in dataset}
    given = dict(reversed([(field_.name, field_.type) for field_ in source]))

    def found() -> Iterator[Drift]:
        for name in dict.fromkeys(source.names):
            here, there = kinds.get(name), given[name]
            if here != there:
                yield Drift(name, there, here)
        for field_ in dataset:
            if field_.name not in given:
                yield Drift(field_.name, None, field_.type)

    return tuple(found())
