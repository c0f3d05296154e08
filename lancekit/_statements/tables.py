"""Tables of statements: registered names, and reads of columns with filters and limits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancekit._api.frames import frame_of
from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.planned_scan import planned_over
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._format.extensions import stored_values, text_batch, text_schema
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine import spark_engine
from lancekit._pipeline.inputs import as_reader, is_spark_dataframe
from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax_text import quoted
from lancekit._scan.fragments.blobs import blob_view
from lancekit._spark.frames.types import READ_IT, arrow_schema, to_spark_batch, wire_schema
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

if TYPE_CHECKING:
    from lancekit._operations.explain.explanation import Explanation
    from lancekit._operations.mem_wal.reader.sources import ReadSet

#: the tables to read together with their shards: all, none, or a set of names
WithShards: TypeAlias = bool | frozenset[str]

_registered: dict[str, object] = {}
#: statements read blobs as bytes: a written descriptor would become the content of a new blob
BLOBS = "all_binary"


@checked
def register(name: str, uri: str | os.PathLike[str] | LanceDataset | None) -> None:
    """Register a name of a dataset for the SQL statements of this session.

    Parameters
    ----------
    name
        The name of the table in statements.
    uri
        The dataset's URI, at which each statement opens the newest version.  Or a handle, which
        stays at its version until a statement changes it.  ``None`` removes the name.

    Raises
    ------
    InvalidArgumentError
        The name is empty, or cannot be removed because it is not registered.

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
            f"No dataset is registered as {name!r}."
            if name.strip()
            else "The name of a dataset must not be empty.",
            hint="Pass a name and the place of the dataset.",
            name=name,
        )
    if uri is None:
        del _registered[name]
    else:
        _registered[name] = uri


@dataclass(frozen=True, slots=True)
class Names:
    """Values by name: arguments of the statement, variables of the caller, registered names."""

    given: Mapping[str, object] = field(default_factory=dict)
    at_hand: Mapping[str, object] = field(default_factory=dict)

    def find(self, name: str) -> object:
        """Return the value of a name, exact or unique except for case; ``None`` if unknown."""
        for place in (self.given, self.at_hand, _registered):
            matches = [own for own in place if own.lower() == name.lower()]
            found = name if name in place else matches[0] if len(matches) == 1 else None
            value = None if found is None else place[found]
            if value is not None and (place is not self.at_hand or _can_be_table(value)):
                return value
        return None

    def known(self) -> list[str]:
        """Return the names that can be tables."""
        tables = {name for name, value in self.at_hand.items() if isinstance(value, LanceDataset)}
        return sorted({*self.given, *tables, *_registered})

    def tables(self) -> Iterator[tuple[str, object]]:
        """Yield the names and values of datasets and frames, sorted; not the shell's own names."""
        variables = {
            name: value
            for name, value in self.at_hand.items()
            if not name.startswith("_") and (isinstance(value, LanceDataset) or is_frame(value))
        }
        yield from sorted({**_registered, **variables, **self.given}.items())


#: by package: the class of data frames
FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table", "pyspark": "DataFrame"}


def is_frame(value: object) -> bool:
    """Return True if a value is a data frame, or a result of a statement."""
    name = type(value).__name__
    package = str(type(value).__module__).partition(".")[0]
    return name == FRAMES.get(package) or (package == "lancekit" and name == "SqlResult")


def _can_be_table(value: object) -> bool:
    return not callable(value) and not isinstance(value, int | float | ModuleType)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table of a statement.

    name: its name in the text.
    schema: its columns, in the types of statements.
    rows: the number of rows, ``None`` if unknown.
    source: a handle, an Arrow table, or a Spark DataFrame.
    moved_to: the version that a change of this table has moved it to.
    read_set: the rows of shards to read with the dataset, if requested.
    """

    name: str
    schema: pa.Schema
    rows: int | None
    source: Any
    moved_to: int | None = None
    read_set: ReadSet | None = None

    @classmethod
    def of(cls, name: str, source: object, moved_to: int | None = None) -> Table:
        """Return a table of any rows that `write_dataset` takes.

        Raises InvalidTypeError: the source has no rows.
        """
        if isinstance(source, LanceDataset):
            handle = source
            return cls(
                name=name,
                schema=_kinds(
                    text_schema(blob_view(handle._snapshot.manifest.schema, BLOBS).to_arrow())
                ),
                rows=handle._snapshot.manifest.num_rows,
                source=handle,
                moved_to=moved_to,
            )
        if is_spark_dataframe(source):
            schema = _kinds(arrow_schema(source.schema))
            return cls(name=name, schema=schema, rows=None, source=source)
        reader = as_reader(source)
        rows = pa.Table.from_batches(map(text_batch, reader), text_schema(reader.schema))
        return cls(name=name, schema=_kinds(rows.schema), rows=rows.num_rows, source=rows)

    @classmethod
    def with_shards(cls, name: str, source: LanceDataset, of: ReadSet) -> Table:
        """Return a table of a dataset's newest version, together with the rows of its shards."""
        table = cls.of(name, source._other(of.base))
        rows = of.base.manifest.num_rows + sum(part.num_rows for part in of.fragments)
        return replace(table, rows=rows, read_set=of)

    @property
    def waiting(self) -> WaitingRows:
        """The rows that wait in the dataset's shards and are not read."""
        if self.handle is None or self.handle._read_only or self.read_set is not None:
            return WaitingRows()
        return waiting_rows(self.handle._snapshot)

    @property
    def on_spark(self) -> bool:
        """True if the source is a Spark DataFrame."""
        return is_spark_dataframe(self.source)

    @property
    def handle(self) -> LanceDataset | None:
        """The handle of a dataset; ``None`` for other sources."""
        return self.source if isinstance(self.source, LanceDataset) else None

    def count(self, filter: Unbound | None) -> int | None:  # noqa: A002  # as in scans
        """Count the rows that pass a filter; ``None`` for a Spark DataFrame."""
        if self.handle is None:
            return self.rows
        if filter is None and self.read_set is None:
            return self.rows
        return self._scanner(ScanArguments(columns=[], filter=filter)).count_rows()

    def stream(self, wanted: ScanArguments) -> Stream:
        """Return a lazy stream of some columns, in types that both engines have."""
        if self.handle is None:
            rows: pa.Table = self.source.select(list(wanted.columns or ())).slice(0, wanted.limit)
            return Stream(rows.schema, lambda: iter(rows.to_batches()))
        scanner = self._scanner(wanted)
        return Stream(scanner.projected_schema, scanner.to_batches)

    def frame(self, wanted: ScanArguments) -> tuple[Any, object]:
        """Return some columns as a Spark DataFrame, and an object to keep alive with it."""
        if self.handle is not None:
            if self.read_set is not None:
                return spark_engine().frame(planned_over(self.read_set, wanted), None), None
            return frame_of(self.handle._snapshot, wanted), None
        names = list(wanted.columns or ())
        if self.on_spark:
            return self.source.select(*(f"`{n.replace('`', '``')}`" for n in names)), None
        kept = spark_engine().source(self.source.select(names), None)
        return kept.frame, kept

    def explained(self, wanted: ScanArguments) -> Explanation | None:
        """Return the explanation of a scan of a dataset; ``None`` for other sources."""
        if self.handle is None:
            return None
        return self._scanner(wanted).explain()

    def _scanner(self, options: ScanArguments) -> LanceScanner:
        if self.read_set is None:
            return scan_of(self.source._snapshot, options)
        return LanceScanner(planned_over(self.read_set, options), self.read_set.base)


def wanted_rows(
    columns: Iterable[str], condition: Unbound | None = None, limit: int | None = None
) -> ScanArguments:
    """Return the arguments of a scan; row addresses are cast to bigint, which all engines have."""
    wanted: list[str] | dict[str, str] = list(columns)
    if ROW_ADDRESS in wanted:
        wanted = {n: f"CAST({n} AS bigint)" if n == ROW_ADDRESS else quoted(n) for n in wanted}
    return ScanArguments(columns=wanted, filter=condition, limit=limit, blob_handling=BLOBS)


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows that can be read repeatedly: each Arrow C stream starts at the first row.

    The columns have types that both engines have, and new `names` if given.
    """

    own: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    names: tuple[str, ...] = ()

    def named(self, names: Sequence[str]) -> Stream:
        """Return the stream with other column names."""
        return Stream(self.own, self.batches, tuple(names))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        wire = wire_schema(self.own)
        names = self.names or wire.names
        return pa.schema([(n, field.type) for n, field in zip(names, wire, strict=True)])

    def reader(self) -> pa.RecordBatchReader:
        """Return a new reader that starts at the first row."""
        schema, wire = self.schema, wire_schema(self.own)
        pieces = (
            pa.RecordBatch.from_arrays(to_spark_batch(batch, wire, READ_IT).columns, schema=schema)
            for batch in self.batches()
        )
        return pa.RecordBatchReader.from_batches(schema, pieces)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)


def json_columns(dataset: LanceDataset) -> dict[str, pa.Field]:
    """Return the JSON columns by name, with JSON as text; filters read the stored form."""
    stored = dataset._snapshot.manifest.schema.to_arrow()
    pairs = zip(stored, text_schema(stored), strict=True)
    return {own.name: own for field, own in pairs if own.type != field.type}


def with_json(rows: pa.Table, target: LanceDataset) -> pa.Table:
    """Mark text for JSON columns of a target as JSON; statements have JSON as text."""
    for own in json_columns(target).values():
        at = rows.schema.get_field_index(own.name)
        if at >= 0 and rows.schema.types[at] == _kind(own).type:
            parts = [stored_values(part, own.type) for part in rows.column(at).chunks]
            rows = rows.set_column(at, own, pa.chunked_array(parts, own.type))
    return rows


def _kinds(schema: pa.Schema) -> pa.Schema:
    """Return a schema in the types of statements; types that no engine has stay unchanged."""
    return pa.schema([_kind(field) for field in schema])


def _kind(one: pa.Field) -> pa.Field:
    try:
        return wire_schema(pa.schema([one])).field(0)
    except UnsupportedTypeError:
        return one
