"""What a SELECT gives."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._display import Displayed
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine.engine import Choice, EngineName, spark_engine
from lancekit._pipeline.engine.pandas_frames import exact_frame
from lancekit._scan.expressions.unbound import Unbound
from lancekit._statements.emit import Written
from lancekit._statements.tree import Leaf

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Part", "SqlResult", "parts_of"]


@dataclass(frozen=True, slots=True)
class Part:
    """What a query read of a table: its columns and, if there is one, the filter of the scan.

    `from_shards` counts the rows of shards that were read with a dataset, `None` if it was read
    without them; then `waiting` counts the rows of shards that the query did not see.
    """

    table: str
    columns: tuple[str, ...]
    filter: Unbound | None = None
    limit: int | None = None
    from_shards: int | None = None
    waiting: WaitingRows = field(default_factory=WaitingRows)


def parts_of(written: Written) -> tuple[Part, ...]:
    """Return what a query reads of each table; of a counted one, if it has rows of shards."""
    waiting: dict[int, WaitingRows] = {}

    def part(leaf: Leaf, columns: Collection[str] = ()) -> Part:
        table, of = leaf.table, leaf.table.read_set
        key = id(table.source)
        if key not in waiting:
            waiting[key] = table.waiting
        rows = None if of is None else sum(one.num_rows for one in of.fragments)
        return Part(table.name, tuple(columns), leaf.filter, leaf.limit, rows, waiting[key])

    counted = (part(leaf) for leaf in written.counted)
    return (
        *(part(read.leaf, read.columns.values()) for read in written.reads),
        *(one for one in counted if one.from_shards or one.waiting),
    )


def _nothing(frame: object) -> pa.Table:
    raise AssertionError(frame)  # there is none here


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SqlResult(Displayed):
    """The rows of a SELECT: here, or as a Spark DataFrame that is worked out when it is asked for.

    It can be given to whatever takes rows: a write, a merge, another statement.

    Attributes
    ----------
    sql
        The statement.
    schema
        The columns and their types, the same on both engines.
    engine, why
        Where it was worked out, and why there.
    reads
        What was read of which table.
    """

    sql: str
    schema: pa.Schema
    choice: Choice
    reads: tuple[Part, ...] = ()
    table: pa.Table | None = None
    frame: Any = None
    _kept: tuple[Any, ...] = ()
    _collect: Callable[[Any], pa.Table] = _nothing
    _first: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def engine(self) -> EngineName:
        """Where it was worked out."""
        return self.choice.engine

    @property
    def why(self) -> str:
        """Why there."""
        return self.choice.why

    @property
    def num_rows(self) -> int | None:
        """The number of rows; ``None`` on Spark, where nobody has counted them."""
        return None if self.table is None else self.table.num_rows

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table; on Spark they are worked out now."""
        return self.table if self.table is not None else self._rows(self.frame)

    def head(self, num_rows: int = 5) -> pa.Table:
        """Return the first rows; on Spark a job is run for them, once."""
        if self.table is not None:
            return self.table.slice(0, num_rows)
        if num_rows not in self._first:
            self._first[num_rows] = self._rows(self.frame.limit(num_rows))
        return self._first[num_rows]

    @property
    def shown(self) -> pa.Table | None:
        """The rows that can be shown without any work: all, or those that `head` brought."""
        return (
            self.table
            if self.table is not None
            else max(self._first.values(), key=lambda rows: rows.num_rows, default=None)
        )

    def to_pandas(self, **kwargs: object) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; ``kwargs`` as in `pyarrow.Table.to_pandas`."""
        return exact_frame(self.to_table(), kwargs)

    def to_spark(self) -> Any:
        """Return the rows as a Spark DataFrame; those that are here are sent."""
        if self.frame is not None:
            return self.frame
        return spark_engine().source(self.table, None).frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_table().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.to_table().num_rows

    def _rows(self, frame: object) -> pa.Table:
        rows: pa.Table = self._collect(frame).rename_columns(self.schema.names)
        return ak.cast(rows, self.schema)

    def _plain(self) -> str:
        rows = "" if self.table is None else f"{self.table.num_rows} rows, "
        return f"<SqlResult: {rows}{len(self.schema)} columns>"
