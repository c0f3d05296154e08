"""Settings of shard writers, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from time import perf_counter
from typing import Any

from lancekit._checked import is_whole
from lancekit._legible import shown
from lancekit._operations.mem_wal.generation import Memtable
from lancekit._operations.mem_wal.log_writer import Ticket
from lancekit.errors import InvalidArgumentError, InvalidTypeError

_MAX_VALUE = (1 << 63) - 1
#: the settings of an index's graph, with the reference's defaults
_GRAPH_DEFAULTS: Mapping[str, int] = {"num_edges": 20, "ef_construction": 150, "max_level": 7}
_GRAPHS, _GRAPHS_ARGUMENT = "hnsw.", "hnsw_params"


def _at_least(least: int, default: int) -> int:
    return field(default=default, metadata={"least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """The settings of a shard writer; names and defaults are the reference's.

    durable_write: True if a put returns only once its rows are in the log.
    max_wal_buffer_size, max_wal_flush_interval_ms: the most bytes, and the longest time, that rows
        wait to be written to the log.
    max_wal_persist_retries, wal_persist_retry_base_delay_ms: the number of retries after an entry
        could not be stored, and the first pause.
    max_memtable_size, max_memtable_rows, max_memtable_batches: the bytes, rows or batches at which
        a memtable becomes a generation.
    max_unflushed_memtable_bytes: the bytes in memory at which puts wait.
    manifest_scan_batch_size: accepted and ignored: newest manifests are found in another way.
    backpressure_log_interval_ms, stats_log_interval_ms: how often a writer logs waiting puts and
        its statistics.  0 means never.
    enable_memtable: True if rows are kept in memory for readers.
    graphs: the graph settings of vector indices of generations, by index name.
    """

    durable_write: bool = True
    max_wal_buffer_size: int = _at_least(0, 10 << 20)
    max_wal_flush_interval_ms: int = _at_least(0, 100)
    max_wal_persist_retries: int = _at_least(0, 3)
    wal_persist_retry_base_delay_ms: int = _at_least(0, 50)
    max_memtable_size: int = _at_least(1, 256 << 20)
    max_memtable_rows: int = _at_least(1, 100_000)
    max_memtable_batches: int = _at_least(1, 8000)
    max_unflushed_memtable_bytes: int = _at_least(1, 1 << 30)
    manifest_scan_batch_size: int = _at_least(0, 2)
    backpressure_log_interval_ms: int = _at_least(0, 30_000)
    stats_log_interval_ms: int = _at_least(0, 60_000)
    enable_memtable: bool = True
    graphs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one in fields(self):
            least, value = one.metadata.get("least"), getattr(self, one.name)
            if least is not None and not least <= value <= _MAX_VALUE:
                raise InvalidArgumentError(
                    f"{one.name} must be an integer from {least} to {_MAX_VALUE}, got {value}.",
                    argument=one.name,
                )
        if self.durable_write and not self.max_wal_flush_interval_ms:
            raise InvalidArgumentError(
                "durable_write=True needs max_wal_flush_interval_ms of 1 or more, got 0.",
                hint="Pass an interval of 1 or more, or durable_write=False.",
                argument="max_wal_flush_interval_ms",
            )


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):  # as a table stores it
        return bool(value == "true")
    raise InvalidTypeError(f"{name} must be True or False, got {shown(value)}.", argument=name)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if not is_whole(value):
        raise InvalidTypeError(f"{name} must be an integer, got {shown(value)}.", argument=name)
    return int(value)


_PARSERS: Mapping[str, Callable[[str, object], Any]] = {
    one.name: _whole if "least" in one.metadata else _boolean
    for one in fields(WriterSettings)
    if one.name != "graphs"
}


def given_settings(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the writer settings among the arguments of a call, except ``None`` values."""
    names = {*_PARSERS, _GRAPHS_ARGUMENT}
    return {name: value for name, value in arguments.items() if name in names and value is not None}


def writer_settings(
    defaults: Mapping[str, str], given: Mapping[str, object] | None = None
) -> WriterSettings:
    """Return a writer's settings: the call's, else the table's, else the defaults.

    defaults: the settings that the table stores, as text.  Unknown names are ignored.
    given: the settings of the call (`given_settings`), by argument name.

    Raises InvalidArgumentError: a value is out of range, or a graph setting is unknown.
    Raises InvalidTypeError: a value is of the wrong type.

    Examples
    --------
    >>> writer_settings({"max_memtable_rows": "7"}, {"durable_write": True}).max_memtable_rows
    7
    """
    explicit = dict(given or {})
    graphs = {**_stored_graphs(defaults), **_graphs(explicit.pop(_GRAPHS_ARGUMENT, {}))}
    known = {name: value for name, value in defaults.items() if name in _PARSERS}
    values = {name: _PARSERS[name](name, value) for name, value in {**known, **explicit}.items()}
    return WriterSettings(**values, graphs=graphs)


def _stored_graphs(defaults: Mapping[str, str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, value in defaults.items():
        index, _, setting = name.removeprefix(_GRAPHS).rpartition(".")
        if name.startswith(_GRAPHS) and setting in _GRAPH_DEFAULTS:
            found.setdefault(index, dict(_GRAPH_DEFAULTS))[setting] = _whole(name, value)
    return found


def _graphs(given: object) -> dict[str, dict[str, int]]:
    if not isinstance(given, Mapping) or not all(
        isinstance(one, Mapping) for one in given.values()
    ):
        raise InvalidTypeError(
            f"hnsw_params must be a dict with a dict for each index, got {shown(given)}.",
            hint='Pass parameters by index: {"vectors": {"num_edges": 20}}.',
            argument="hnsw_params",
        )
    unknown = [
        (index, name) for index, one in given.items() for name in one if name not in _GRAPH_DEFAULTS
    ]
    if unknown:
        index, name = unknown[0]
        raise InvalidArgumentError(
            f"hnsw_params for index {shown(index)} has an unknown parameter {shown(name)}.",
            hint=f"The parameters are {', '.join(_GRAPH_DEFAULTS)}.",
            argument="hnsw_params",
        )
    return {
        str(index): {
            **_GRAPH_DEFAULTS,
            **{name: _whole(f"{name} of hnsw_params", value) for name, value in one.items()},
        }
        for index, one in given.items()
    }


def settings_as_text(settings: WriterSettings) -> dict[str, str]:
    """Return all settings in the form in which a table stores them.

    Examples
    --------
    >>> settings_as_text(WriterSettings())["durable_write"]
    'true'
    """
    text = {name: str(getattr(settings, name)).lower() for name in _PARSERS}
    if not settings.stats_log_interval_ms:  # 0 means never, and is not stored
        del text["stats_log_interval_ms"]
    for index, graph in settings.graphs.items():
        text.update({f"{_GRAPHS}{index}.{name}": str(value) for name, value in graph.items()})
    return text


# ---- the statistics of a writer, and its memory use


@dataclass(slots=True)
class WriterStats:
    """Counts and times of a writer's puts, log entries and memtable flushes, by pylance's names.

    Examples
    --------
    >>> stats = WriterStats()
    >>> stats.add("put", perf_counter())
    >>> stats.shown()["put_count"]
    1
    """

    put_count: int = 0
    put_time_ms: float = 0.0
    wal_flush_count: int = 0
    wal_flush_bytes: int = 0
    wal_flush_time_ms: float = 0.0
    memtable_flush_count: int = 0
    memtable_flush_rows: int = 0
    memtable_flush_failures: int = 0
    memtable_flush_time_ms: float = 0.0

    def add(self, what: str, started: float) -> None:
        """Count an event, and add the time since `started`, a value of `perf_counter`."""
        passed = (perf_counter() - started) * 1000
        setattr(self, f"{what}_count", getattr(self, f"{what}_count") + 1)
        setattr(self, f"{what}_time_ms", getattr(self, f"{what}_time_ms") + passed)

    def shown(self) -> dict[str, int]:
        """Return the statistics, with times in whole milliseconds."""
        return {name: int(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory use of a writer.

    generation, rows, batches, bytes: of the active memtable.
    frozen, frozen_bytes: the memtables that wait to become generations.
    pending_batches, pending_rows, pending_bytes: the rows that are not in the log yet.
    entries: the number of log entries that the writer has written.
    """

    generation: int
    rows: int
    batches: int
    bytes: int
    frozen: int
    frozen_bytes: int
    pending_batches: int
    pending_rows: int
    pending_bytes: int
    entries: int

    @classmethod
    def of(
        cls, active: Memtable, frozen: Collection[Memtable], pending: Sequence[Ticket], entries: int
    ) -> Memory:
        """Count the memtables, and the rows that wait for the log."""
        return cls(
            generation=active.generation,
            rows=active.rows,
            batches=len(active.batches),
            bytes=active.bytes,
            frozen=len(frozen),
            frozen_bytes=sum(table.bytes for table in frozen),
            pending_batches=sum(len(ticket.batches) for ticket in pending),
            pending_rows=sum(ticket.rows for ticket in pending),
            pending_bytes=sum(ticket.bytes for ticket in pending),
            entries=entries,
        )

    def shown(self) -> dict[str, int | None]:
        """Return the counts under pylance's names; parts that lancekit does not have count 0."""
        first, last = self.batches, self.batches + self.pending_batches
        waiting = bool(self.pending_batches)
        return {
            "row_count": self.rows,
            "batch_count": self.batches,
            "estimated_size_bytes": self.bytes,
            "index_bytes": 0,
            "generation": self.generation,
            "max_buffered_batch_position": self.batches - 1 if self.batches else None,
            "durable_batch_count": self.entries,
            "global_offset": max(self.entries - self.batches, 0),
            "pending_wal_start_batch_position": first if waiting else None,
            "pending_wal_end_batch_position": last if waiting else None,
            "pending_wal_batch_count": self.pending_batches,
            "pending_wal_row_count": self.pending_rows,
            "pending_wal_estimated_bytes": self.pending_bytes,
            "frozen_count": self.frozen,
            "frozen_bytes": self.frozen_bytes,
            "grace_bytes": 0,
            "retained_bytes": self.bytes + self.frozen_bytes,
        }
