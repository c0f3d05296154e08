"""The choice of how a merge finds the keys of its source in the target, by size.

Only this module chooses where keys are looked up; `_spark/source.py` and `_spark/merge/` follow
it.  The form in which keys are sent to tasks (a table, sorted, hashed) is chosen by their number
and type in `_spark/merge/match_keys.py` (`_packed`).  The user decides whether rows or columns are
written, see `MergeJob.patches`.  No choice changes which rows are found
(docs/format/operations.md, 5.2).  To explain a merge before it runs, call `choose_match`::

    choose_match(engine="spark", source_rows=10_000_000, key_bytes=80_000_000,
                 target_rows=100_000_000)

An open source knows its own size: ``source.match(casts, clauses, snapshot)`` returns the same
`MatchPlan`.  After a merge, `MergeWork.match` has the plan that it followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lancekit._legible import count
from lancekit._pipeline.engine import EngineName
from lancekit._scan.index_lookup import IndexLookup
from lancekit.options import options

#: ``driver``: the target's keys are read in this process.  ``index``: this process reads the keys
#: of rows that no index covers, and of rows that an index found.  ``closure``, ``file``: the
#: source's keys are sent to tasks that read the target's keys: with the function or through a file
#: in the dataset's folder (always beyond `SENT_BYTES`).  ``broadcast``: the target's keys are sent
#: to the tasks that hold the source.  ``shuffle``: both sides are sorted and joined.
Strategy = Literal["driver", "index", "closure", "file", "broadcast", "shuffle"]

#: the most bytes of keys that this process collects, and that Spark Connect can send with a
#: function.  More keys are joined by Spark, whose tasks return the matched rows in two bytes each
CLOSURE_BYTES = 64 << 20
#: the limit for keys wider than `_NARROW` bytes, which are held twice in this process, while
#: integers are sorted; a merge should take at most 40 bytes of this process for each row
WIDE_BYTES, _NARROW = 16 << 20, 9
#: most bytes of keys sent along with a function: sending copies them three times in this process,
#: and each task unpacks them, while each process reads a file only once
SENT_BYTES = 8 << 20
#: the most target rows whose keys and addresses fit into the memory of every task, and the bytes of
#: an address
_BROADCAST_ROWS, _ADDRESS_BYTES = 1_000_000, 8
#: the bytes of keys whose scan costs about as much as the lookup of one key in an index, and as the
#: start of lookups
_LOOK_UP_BYTES, _INDEX_BYTES = 30_000, 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPlan:
    """The place and the method of a merge's key lookup, and the reason.

    `engine` is ``local`` or ``spark``; `key_bytes` is the size of the source's key columns.
    """

    strategy: Strategy
    engine: EngineName
    source_rows: int
    key_bytes: int
    target_rows: int
    why: str


def choose_match(
    *,
    engine: EngineName,
    source_rows: int,
    key_bytes: int,
    target_rows: int,
    most_key_bytes: int = CLOSURE_BYTES,
    update_bytes: int = 0,
    lookup: IndexLookup | None = None,
    by_address: bool = False,
) -> MatchPlan:
    """Choose how a merge finds its keys, by ``options.merge_match`` or else by size.

    engine: where the source's rows are: ``local`` or ``spark``.
    source_rows, key_bytes: the rows of the source, and the bytes of their key columns.
    target_rows: the rows of the dataset.
    most_key_bytes: the most bytes of keys that this process collects from either side.
    update_bytes: the bytes of a target row that its update needs besides the key.
    lookup: the lookup in the indices of the key columns, if there are any.
    by_address: whether the keys are row addresses, which need no lookup.

    Examples
    --------
    >>> plan = choose_match(engine="spark", source_rows=10, key_bytes=80, target_rows=10**9)
    >>> plan.strategy, plan.why
    ('closure', '10 keys (80 B) are sent to the tasks that read the target')
    """
    names, covered = (lookup.names, lookup.covered_rows) if lookup is not None else ((), 0)
    width = key_bytes / max(source_rows, 1)
    cheap = _INDEX_BYTES + _LOOK_UP_BYTES * source_rows < covered * width
    rest_is_local = engine == "local" or (
        options.merge_match == "auto" and target_rows - covered <= options.spark_threshold_rows
    )
    if names and cheap and rest_is_local:
        strategy: Strategy = "index"
    elif engine == "local" or by_address:
        strategy = "driver"
    elif options.merge_match != "auto":
        strategy = options.merge_match
    else:
        strategy = _by_size(source_rows, key_bytes, target_rows, most_key_bytes, update_bytes)
    why = (_ADDRESSES if by_address else _WHY[strategy]).format(
        source=count(source_rows),
        size=_bytes(key_bytes),
        target=count(target_rows),
        names=" and ".join(names),
        covered=count(covered),
        rest=count(max(target_rows - covered, 0)),
    )
    if strategy == "driver" and names:
        why += f", which costs less than to query {' and '.join(names)}"
    if engine != "local" and options.merge_match != "auto" and not by_address:
        why += f", because options.merge_match is {strategy!r}"
    return MatchPlan(
        strategy=strategy,
        engine=engine,
        source_rows=source_rows,
        key_bytes=key_bytes,
        target_rows=target_rows,
        why=why,
    )


def collects_keys(source_rows: int, key_bytes: int, most_key_bytes: int) -> bool:
    """Return True if this process collects the source's keys, perhaps to send them to tasks."""
    if options.merge_match != "auto":
        return options.merge_match in {"driver", "closure", "file"}
    return _few(source_rows, key_bytes, most_key_bytes)


def _few(source_rows: int, key_bytes: int, most_key_bytes: int) -> bool:
    narrow = key_bytes <= _NARROW * source_rows
    return key_bytes <= (most_key_bytes if narrow else min(most_key_bytes, WIDE_BYTES))


def _by_size(
    source_rows: int, key_bytes: int, target_rows: int, most_key_bytes: int, update_bytes: int
) -> Strategy:
    if not _few(source_rows, key_bytes, most_key_bytes):
        width = key_bytes // max(source_rows, 1) + _ADDRESS_BYTES + update_bytes
        few = target_rows <= _BROADCAST_ROWS and target_rows * width <= most_key_bytes
        return "broadcast" if few else "shuffle"
    # Up to these sizes, this process finishes before the tasks of a Spark job have started.
    small = source_rows <= options.merge_driver_rows
    if small and target_rows <= options.spark_threshold_rows:
        return "driver"
    return "closure" if key_bytes <= SENT_BYTES else "file"


_WHY: dict[Strategy, str] = {
    "driver": "{source} keys are looked up among {target} rows in this process",
    "index": "{source} keys are looked up in {names}, which covers {covered} rows, and among the "
    "{rest} others in this process",
    "closure": "{source} keys ({size}) are sent to the tasks that read the target",
    "file": "{source} keys ({size}) go through a file to the tasks that read the target",
    "broadcast": "the keys of {target} rows are sent to the tasks with the source",
    "shuffle": "{source} and {target} keys are too many to be sent, so Spark sorts and joins them",
}

_ADDRESSES = "{source} rows were derived from {target}, with their row addresses"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
