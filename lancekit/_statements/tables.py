"""The tables of a statement: what its names mean, and how the columns asked for are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancekit._api.frames import frame_of
from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.planned_scan import planned_over
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine import spark_engine
from lancekit._pipeline.inputs import as_reader, is_spark_dataframe
from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax_text import quoted
from lancekit._scan.fragments.blobs import blob_view
from lancekit._spark.frames.types import arrow_schema, to_spark_batch, wire_schema
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

if TYPE_CHECKING:
    from lancekit._operations.mem_wal.reader.sources import ReadSet

#: the tables that are read together with their shards: all, none, or some by their names
WithShards: TypeAlias = bool | frozenset[str]

_registered: dict[str, object] = {}
#: in statements a blob is its bytes: what describes where they lie would be written as another blob
BLOBS = "all_binary"


@checked
def register(name: str, uri: str | os.PathLike[str] | LanceDataset | None) -> None:
    """Give a dataset a name that the statements of this session know it by.

    Parameters
    ----------
    name
        How statements call it.
    uri
        Where it is; it is opened anew, at its newest version, by each statement.  Or a handle,
        which stays at its version, and which changes move.  ``None`` takes the name back.

    Raises
    ------
    InvalidArgumentError
        The name is empty, or to be taken back and not there.

    Examples
    --------
    >>> import lancekit as lk
    >>> _ = lk.write_dataset({"x": [1, 2]}, "memory://register-example")
    >>> lk.register("numbers", "memory://register-example")
    >>> lk.sql("SELECT sum(x) AS total FROM numbers").to_table().to_pylist()
    [{'total': 3}]
    >>> lk.register("numbers", None)
    """
    if not name.strip() or (uri is None and name not in _registered):
        raise InvalidArgumentError(
            f"There is no dataset registered as {name!r}."
            if name.strip()
            else "A name is empty, and no statement can say it.",
            hint="Pass a name and where the dataset is.",
            name=name,
        )
    if uri is None:
        del _registered[name]
    else:
        _registered[name] = uri


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a statement mean: those given with it, others at hand, registered ones."""

    given: Mapping[str, object] = field(default_factory=dict)
    at_hand: Mapping[str, object] = field(default_factory=dict)

    def find(self, name: str) -> object:
        """Return what a name means, as it is written or if only its case differs; else ``None``."""
        for place in (self.given, self.at_hand, _registered):
            alike = [own for own in place if own.lower() == name.lower()]
            found = name if name in place else alike[0] if len(alike) == 1 else None
            if found is not None and place[found] is not None:
                return place[found]
        return None

    def known(self) -> list[str]:
        """Return the names that can be tables."""
        tables = {name for name, value in self.at_hand.items() if isinstance(value, LanceDataset)}
        return sorted({*self.given, *tables, *_registered})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table of a statement.

    name: how the text calls it.
    schema: its columns, with the types that statements have (`kinds`).
    rows: how many rows it has, ``None`` if that is not known.
    source: a handle, an Arrow table, or a Spark DataFrame.
    moved_to: the version that it was moved to since, because the statement changes it.
    read_set: the rows of shards that are read with the dataset, if any are asked for.
    """

    name: str
    schema: pa.Schema
    rows: int | None
    source: Any
    moved_to: int | None = None
    read_set: ReadSet | None = None

    @classmethod
    def of(cls, name: str, source: object, moved_to: int | None = None) -> Table:
        """Return rows of any kind that `write_dataset` takes, as a table.

        Raises InvalidTypeError: they are no rows.
        """
        if isinstance(source, LanceDataset):
            handle = source
            return cls(
                name=name,
                schema=_kinds(blob_view(handle._snapshot.manifest.schema, BLOBS).to_arrow()),
                rows=handle._snapshot.manifest.num_rows,
                source=handle,
                moved_to=moved_to,
            )
        if is_spark_dataframe(source):
            schema = _kinds(arrow_schema(source.schema))
            return cls(name=name, schema=schema, rows=None, source=source)
        rows = as_reader(source).read_all()
        return cls(name=name, schema=_kinds(rows.schema), rows=rows.num_rows, source=rows)

    @classmethod
    def with_shards(cls, name: str, source: LanceDataset, of: ReadSet) -> Table:
        """Return the newest version of a dataset, together with the rows of its shards."""
        table = cls.of(name, source._other(of.base))
        rows = of.base.manifest.num_rows + sum(part.num_rows for part in of.fragments)
        return replace(table, rows=rows, read_set=of)

    @property
    def waiting(self) -> WaitingRows:
        """The rows that wait in the dataset's shards, and that are not read."""
        if self.handle is None or self.handle._read_only or self.read_set is not None:
            return WaitingRows()
        return waiting_rows(self.handle._snapshot)

    @property
    def on_spark(self) -> bool:
        """Whether the rows are Spark's."""
        return is_spark_dataframe(self.source)

    @property
    def handle(self) -> LanceDataset | None:
        """The handle, if it is a dataset."""
        return self.source if isinstance(self.source, LanceDataset) else None

    def count(self, filter: Unbound | None) -> int | None:  # noqa: A002  # as in scans
        """Count the rows of a filter, ``None`` if that is not for this process to say."""
        if self.handle is None:
            return self.rows
        if filter is None and self.read_set is None:
            return self.rows
        return self._scanner(ScanArguments(columns=[], filter=filter)).count_rows()

    def stream(
        self,
        columns: Sequence[str],
        filter: Unbound | None,  # noqa: A002  # as in scans
        limit: int | None,
    ) -> Stream:
        """Return rows of some columns, in the form that both engines have, read when asked for."""
        if self.handle is None:
            rows: pa.Table = self.source.select(list(columns)).slice(0, limit)
            return Stream(rows.schema, lambda: iter(rows.to_batches()))
        scanner = self._scanner(_options(columns, filter, limit))
        return Stream(scanner.projected_schema, scanner.to_batches)

    def frame(
        self,
        columns: Sequence[str],
        filter: Unbound | None,  # noqa: A002  # as in scans
        limit: int | None,
    ) -> tuple[Any, object]:
        """Return the same as a Spark DataFrame, and what has to be kept as long as it is used."""
        names = list(columns)
        if self.handle is not None:
            options = _options(names, filter, limit)
            if self.read_set is not None:
                return spark_engine().frame(planned_over(self.read_set, options), None), None
            return frame_of(self.handle._snapshot, options), None
        if self.on_spark:
            return self.source.select(*(f"`{n.replace('`', '``')}`" for n in names)), None
        kept = spark_engine().source(self.source.select(names), None)
        return kept.frame, kept

    def _scanner(self, options: ScanArguments) -> LanceScanner:
        if self.read_set is None:
            return scan_of(self.source._snapshot, options)
        return LanceScanner(planned_over(self.read_set, options), self.read_set.base)


def _options(
    columns: Sequence[str],
    filter: Unbound | None,  # noqa: A002  # as in scans
    limit: int | None,
) -> ScanArguments:
    asked = _asked(columns)
    return ScanArguments(columns=asked, filter=filter, limit=limit, blob_handling=BLOBS)


def _asked(columns: Sequence[str]) -> list[str] | dict[str, str]:
    """Return what a scan is asked for; addresses come as numbers that all engines have."""
    if ROW_ADDRESS not in columns:
        return list(columns)
    return {n: f"CAST({n} AS bigint)" if n == ROW_ADDRESS else quoted(n) for n in columns}


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows that can be read more than once: each ask of Arrow's C stream starts anew.

    They come in the form that both engines have, under other `names` if there are some.
    """

    own: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    names: tuple[str, ...] = ()

    def named(self, names: Sequence[str]) -> Stream:
        """Return the rows with other names."""
        return Stream(self.own, self.batches, tuple(names))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        wire = wire_schema(self.own)
        names = self.names or wire.names
        return pa.schema([(n, field.type) for n, field in zip(names, wire, strict=True)])

    def reader(self) -> pa.RecordBatchReader:
        """Start to read."""
        schema, wire = self.schema, wire_schema(self.own)
        pieces = (
            pa.RecordBatch.from_arrays(to_spark_batch(batch, wire).columns, schema=schema)
            for batch in self.batches()
        )
        return pa.RecordBatchReader.from_batches(schema, pieces)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)


def _kinds(schema: pa.Schema) -> pa.Schema:
    """Return a schema in the types of statements; what an engine has no type for stays itself."""
    return pa.schema([_kind(field) for field in schema])


def _kind(one: pa.Field) -> pa.Field:
    try:
        return wire_schema(pa.schema([one])).field(0)
    except UnsupportedTypeError:
        return one
