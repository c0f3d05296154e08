"""SQL over one version of a dataset, run by DataFusion, as in the reference, or by Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.frames import frame_of
from lancekit._api.scanner import scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._extras import install_hint
from lancekit._pipeline.engine import spark_engine
from lancekit._scan.fragments.rebatch import small_batches
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import NotOfferedError, PredicateError

if TYPE_CHECKING:
    from datafusion import SessionContext, SQLOptions

#: syntax that reads columns without their names
_ALL_COLUMNS = re.compile(r"\*|\b(?:natural|describe|table|columns)\b", re.IGNORECASE)

#: the start of a statement that changes data, after comments and ``EXPLAIN``
_CHANGE = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|explain\b|analyze\b|verbose\b)*"
    r"(insert|update|delete|merge|truncate|copy|create|drop|alter)\b",
    re.IGNORECASE | re.DOTALL,
)


@checked_methods
class SqlQueryBuilder(Displayed):
    """Configures a query; every setter returns the builder."""

    def __init__(self, dataset: Handle, sql: str, *, include_mem_wal: bool = False) -> None:
        self._query = SqlQuery(dataset, sql, include_mem_wal)

    def table_name(self, table_name: str) -> SqlQueryBuilder:
        """Set the table name of the dataset in the query; ``dataset`` by default."""
        self._query._table = table_name
        return self

    def with_row_id(self, with_row_id: bool = True) -> SqlQueryBuilder:
        """Add a column ``_rowid`` to the table."""
        self._query._hidden = {**self._query._hidden, "_rowid": with_row_id}
        return self

    def with_row_addr(self, with_row_addr: bool = True) -> SqlQueryBuilder:
        """Add a column ``_rowaddr`` to the table."""
        self._query._hidden = {**self._query._hidden, "_rowaddr": with_row_addr}
        return self

    def batch_size(self, batch_size: int) -> SqlQueryBuilder:
        """Set the most rows of a batch of the result."""
        self._query._batch_rows = check_count("batch_size", batch_size, least=1)
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> SqlQueryBuilder:
        """Set the approximate upper limit of a result batch in bytes."""
        self._query._batch_bytes = check_count("batch_size_bytes", batch_size_bytes, least=1)
        return self

    def blob_handling(self, blob_handling: str) -> SqlQueryBuilder:
        """Set the form of blobs, as in `LanceDataset.scanner`."""
        self._query._blobs = blob_handling
        return self

    def build(self) -> SqlQuery:
        """Return the query; it is checked, and reads its columns, when it runs."""
        return copy(self._query)


@dataclass(eq=False, repr=False)
class SqlQuery(Displayed):
    """A query over one version; each call runs it again."""

    _dataset: Handle
    _sql: str
    _with_shards: bool
    _table: str = "dataset"
    #: the columns of row ids and addresses, in the order in which they were asked for
    _hidden: Mapping[str, bool] = field(default_factory=dict)
    _batch_rows: int | None = None
    _batch_bytes: int | None = None
    _blobs: str | None = None

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Run the query, and return its result.

        Raises
        ------
        PredicateError
            The text does not parse, does not fit the schema, or is no query.
        NotOfferedError
            The package ``datafusion`` is not installed.
        """
        return self._run()[1]

    def _run(self) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        self._check_query()
        session = _session(self._batch_rows)
        snapshot = self._snapshot()
        table = scan_of(snapshot, self._read(snapshot)).to_table()
        try:
            session.from_arrow(table, name=self._table)
            frame = session.sql_with_options(self._sql, _only_queries())
            batches: list[pa.RecordBatch] = frame.collect()
        except Exception as error:
            raise PredicateError(
                f"The query {self._sql!r} cannot be run: {error}.",
                hint=f"The table is called {self._table!r}. Its columns are "
                + ", ".join(snapshot.manifest.schema.names[:20])
                + ".",
                sql=self._sql,
            ) from error
        schema = batches[0].schema if batches else frame.schema()
        size = self._batch_bytes
        return schema, batches if size is None else list(small_batches(batches, size))

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Run the query, and return its result as an Arrow reader."""
        return pa.RecordBatchReader.from_batches(*self._run())

    def to_spark(self) -> Any:
        """Run the query in Spark SQL, over its columns, and return a Spark DataFrame.

        The text uses Spark's dialect, which differs from DataFusion's in places.  The query can
        join other tables and views of the session.

        Examples
        --------
        >>> query = ds.sql("SELECT origin, count(*) AS n FROM dataset GROUP BY origin")
        ... # doctest: +SKIP
        >>> query.build().to_spark().show()  # doctest: +SKIP
        """
        snapshot = self._snapshot()
        table = frame_of(snapshot, self._read(snapshot))
        return spark_engine().query(self._sql, self._table, table)

    def _check_query(self) -> None:
        found = _CHANGE.match(self._sql)
        if found is None:
            return
        waiting = (
            " To delete rows of write-ahead logs, delete by key: "
            'ds.mem_wal_writer(shard).delete({"key": [...]}).'
            if self._with_shards
            else ""
        )
        raise PredicateError(
            f"ds.sql runs only queries, got {found[1].upper()}: {self._sql!r}. Nothing was "
            "changed.",
            hint="Change the table with ds.delete, ds.update, ds.insert or ds.merge_insert, or "
            f"run the statement with lancekit.sql(text, dataset=ds).{waiting}",
            sql=self._sql,
        )

    def _snapshot(self) -> Snapshot:
        """Return the version to read; the newest one if the shards are read, too."""
        snapshot = self._dataset._snapshot
        return latest_snapshot(snapshot.location) if self._with_shards else snapshot

    def _read(self, snapshot: Snapshot) -> ScanArguments:
        """Return the scan arguments of the query; the handle's scan defaults do not apply."""
        return ScanArguments(
            columns=[
                *self._columns(snapshot),
                *(n for n, wanted in self._hidden.items() if wanted),
            ],
            blob_handling=self._blobs,
            include_mem_wal=self._with_shards,
        )

    def _columns(self, snapshot: Snapshot) -> list[str]:
        """Return the columns that the query may read, because their names occur in the text."""
        names: list[str] = snapshot.manifest.schema.names
        if _ALL_COLUMNS.search(self._sql):
            return names
        text = self._sql.lower()
        return [name for name in names if any(form in text for form in _forms(name.lower()))]


def _forms(name: str) -> set[str]:
    """Return the spellings of a name in SQL: unquoted, and with its own quotes doubled."""
    return {name, name.replace('"', '""'), name.replace("`", "``")}


def _only_queries() -> SQLOptions:
    """Return options that make DataFusion refuse changes, which would only affect its copy."""
    from datafusion import SQLOptions

    return SQLOptions().with_allow_dml(allow=False).with_allow_ddl(allow=False)


def _session(batch_rows: int | None) -> SessionContext:
    try:
        from datafusion import SessionConfig, SessionContext
    except ImportError as error:
        raise NotOfferedError(
            "SQL needs the package datafusion, which is not installed.",
            hint=f"{install_hint('sql')}.",
        ) from error
    config = SessionConfig()
    if batch_rows is not None:
        config = config.with_batch_size(min(batch_rows, 1 << 31))
    return SessionContext(config)
