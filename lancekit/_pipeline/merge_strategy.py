"""How the keys of a merge's source are found in the target, chosen by size.

Where keys are looked up is chosen here and nowhere else; `_spark/source.py` and `_spark/merge/`
follow it.  In which form keys are sent to tasks (a table, sorted, hashed) is chosen next, by their
number and type, in `_spark/merge/match_keys.py` (`_packed`).  Whether rows or columns are written
is neither: the user says it, and `MergeJob.patches` tells.  No choice changes which rows are found
(docs/format/operations.md, 5.2).  To tell what a merge will do, call `choose_match` with what is
known of it, and show the answer::

    choose_match(engine="spark", source_rows=10_000_000, key_bytes=80_000_000,
                 target_rows=100_000_000)

An open source knows its own size: ``source.match(casts, clauses, snapshot)`` returns the same
`MatchPlan`, and a merge that was worked out says in `MergeWork.match` which one it followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lancekit._legible import count
from lancekit._pipeline.engine import EngineName
from lancekit._scan.index_lookup import IndexLookup
from lancekit.options import options

#: ``driver``: the target's keys are read in this process.  ``index``: so are those of rows that no
#: index covers, and of rows that may match.  ``closure``, ``file``: the source's keys are sent to
#: tasks that read the target's, with the function or, beyond `SENT_BYTES` always, through a file
#: in the dataset's folder.
#: ``broadcast``: the target's keys are sent to the tasks that hold the source.  ``shuffle``: both
#: sides are sorted and joined.
Strategy = Literal["driver", "index", "closure", "file", "broadcast", "shuffle"]

#: bytes that are sent along with a function; more fail on Spark Connect.  More keys than these do
#: not come to this process either: Spark joins them, and its tasks tell the rows that match in two
#: bytes each
CLOSURE_BYTES = 64 << 20
#: the same for keys of more than so many bytes each: they are held twice here, where numbers are
#: sorted, and a row of a merge is to take no more than 40 bytes of this process
WIDE_BYTES, _NARROW = 16 << 20, 9
#: keys that are sent along with a function: on its way there they are copied three times in this
#: process, and each task unpacks them, where a file is read once by a process
SENT_BYTES = 8 << 20
#: as many addresses and keys fit into every task's memory
_BROADCAST_ROWS, _ADDRESS_BYTES = 1_000_000, 8
#: to look a key up in an index takes as long as to look through so many bytes of keys, about,
#: and to begin with as long as through so many
_LOOK_UP_BYTES, _INDEX_BYTES = 30_000, 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPlan:
    """Where and how a merge looks up its keys, and why there.

    `engine` is ``local`` or ``spark``; `key_bytes` are those of the source's key columns.
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
    lent_bytes: int = 0,
    lookup: IndexLookup | None = None,
    by_address: bool = False,
) -> MatchPlan:
    """Return how a merge finds its keys, by ``options.merge_match`` or else by size.

    engine: where the source's rows are: ``local`` or ``spark``.
    source_rows, key_bytes: the rows of the source, and the bytes of their key columns.
    target_rows: the rows of the dataset.
    most_key_bytes: more bytes than these do not come to this process, of neither side.
    lent_bytes: the bytes of a target row that its update needs besides the key.
    lookup: what asks indices of the key's columns, if there are any to ask.
    by_address: whether the keys are the addresses of rows, which are looked up nowhere.

    Examples
    --------
    >>> plan = choose_match(engine="spark", source_rows=10, key_bytes=80, target_rows=10**9)
    >>> plan.strategy, plan.why
    ('closure', '10 keys (80 B) are sent to the tasks that read the target')
    """
    names, covered = (lookup.names, lookup.covered_rows) if lookup is not None else ((), 0)
    width = key_bytes / max(source_rows, 1)
    cheap = _INDEX_BYTES + _LOOK_UP_BYTES * source_rows < covered * width
    others_here = engine == "local" or (
        options.merge_match == "auto" and target_rows - covered <= options.spark_threshold_rows
    )
    if names and cheap and others_here:
        strategy: Strategy = "index"
    elif engine == "local" or by_address:
        strategy = "driver"
    elif options.merge_match != "auto":
        strategy = options.merge_match
    else:
        strategy = _by_size(source_rows, key_bytes, target_rows, most_key_bytes, lent_bytes)
    why = (_ADDRESSES if by_address else _WHY[strategy]).format(
        source=count(source_rows),
        size=_bytes(key_bytes),
        target=count(target_rows),
        names=" and ".join(names),
        covered=count(covered),
        rest=count(max(target_rows - covered, 0)),
    )
    if strategy == "driver" and names:
        why += f", which takes less than to ask {' and '.join(names)}"
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


def keys_travel(source_rows: int, key_bytes: int, most_key_bytes: int) -> bool:
    """Return whether the source's keys are brought to this process, and maybe sent on from it."""
    if options.merge_match != "auto":
        return options.merge_match in {"driver", "closure", "file"}
    return _few(source_rows, key_bytes, most_key_bytes)


def _few(source_rows: int, key_bytes: int, most_key_bytes: int) -> bool:
    narrow = key_bytes <= _NARROW * source_rows
    return key_bytes <= (most_key_bytes if narrow else min(most_key_bytes, WIDE_BYTES))


def _by_size(
    source_rows: int, key_bytes: int, target_rows: int, most_key_bytes: int, lent_bytes: int
) -> Strategy:
    if not _few(source_rows, key_bytes, most_key_bytes):
        width = key_bytes // max(source_rows, 1) + _ADDRESS_BYTES + lent_bytes
        few = target_rows <= _BROADCAST_ROWS and target_rows * width <= most_key_bytes
        return "broadcast" if few else "shuffle"
    # Up to these sizes a process is done before a job's tasks have started.
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
    "broadcast": "the keys of {target} rows are sent to the tasks that hold the source",
    "shuffle": "{source} and {target} keys are too many to be sent, so Spark sorts and joins them",
}


_ADDRESSES = "{source} rows were worked out of {target}, and know which of them they are for"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
