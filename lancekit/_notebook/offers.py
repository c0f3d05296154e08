"""Names that Tab completion offers: columns, values of arguments, references listed by a thread."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.paths import parse_path, paths_by_id

COLUMNS, REFS, TAGS, BRANCHES, VERSIONS = "columns", "refs", "tags", "branches", "versions"
VALUES = "value"
#: the largest number of completions
MOST = 200
#: how long completion waits for the listing thread, and how long a cached listing is valid
_WAIT_SECONDS, _KEEP_SECONDS = 0.1, 2.0
_SIDES, _MERGES = ("fail", "ours", "theirs"), ("apply", "cherry_pick", "merge", "rebase", "revert")
_WRITES = ("create", "append", "overwrite")
_INDICES = ("BTREE", "BITMAP", "LABEL_LIST", "NGRAM", "ZONEMAP", "BLOOMFILTER", "INVERTED", "FTS")
#: by argument, or method and argument: the texts that it takes
VALUES_OF: Mapping[str, tuple[str, ...]] = {
    "blob_handling": ("all_binary", "blobs_descriptions", "all_descriptions"),
    "blob_mode": ("lazy", "bytes", "descriptions"),
    **{f"{method}.by": ("cell", "row") for method in _MERGES},
    "conflicts": _SIDES,
    "create_index.index_type": ("IVF_FLAT", "IVF_PQ", "IVF_SQ"),
    "create_scalar_index.index_type": _INDICES,
    "data_storage_version": ("stable", "2.0", "2.1", "2.2"),
    "default": _SIDES,
    "existing": ("refuse", "allow"),
    "files": ("link", "reference"),
    "keep": ("first", "last"),
    "measure": ("psi", "ks"),
    "metric": ("L2", "cosine", "dot", "hamming"),
    "mode": _WRITES,
    "names": ("lance", "delta"),
    "merge_mem_wal.on_error": ("raise", "quarantine"),
    "on_fail": ("refuse", "warn"),
    "over": ("version", "time"),
    "primary_key_check": ("warn", "error", "ignore"),
    "stream_sink.mode": ("append", "merge"),
    "write_mode": ("auto", "rewrite_rows", "rewrite_columns"),
}
#: by method and position of an argument: the argument
POSITIONS = {
    ("create_index", 1): "create_index.index_type",
    ("create_scalar_index", 1): "create_scalar_index.index_type",
    ("dedupe", 0): "keep",
    ("write_dataset", 2): "mode",
    **dict.fromkeys((("dataset", 1), ("LanceDataset", 1)), REFS),
    ("write_mode", 0): "write_mode",
}
_IDENTIFIER = re.compile(r"(?:[^\W\d]\w*\.)*(?:[^\W\d]\w*)?$|`[^`]*$")
_PLAIN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


@dataclass(frozen=True, slots=True)
class Completions:
    """Names that can replace the fragment at the end of a text, and their kind."""

    fragment: str
    names: tuple[str, ...]
    kind: str


def identifier(typed: str) -> str:
    """Return the incomplete name, or path of names, at the end of a text."""
    found = _IDENTIFIER.search(typed)
    return found[0] if found else ""


def offer(
    fragment: str,
    names: Iterable[str],
    quote: str,
    kind: str,
    *,
    quoted: bool = False,
    anywhere: bool = False,
) -> Completions | None:
    """Return the names that begin with a fragment and do not close the surrounding quote.

    quoted: True if the names are quoted already.
    anywhere: True if the names match already, even if they do not begin with the fragment.
    """
    low = fragment.lower()
    fit = [
        name
        for name in names
        if (anywhere or name.lower().startswith(low)) and name.isprintable() and "\\" not in name
        if quoted or quote[0] not in name
    ]
    return Completions(fragment, tuple(fit[:MOST]), kind) if fit else None


def columns(handle: LanceDataset) -> Iterator[str]:
    """Yield the columns of the handle's version, then the paths of nested fields."""
    schema = handle._snapshot.manifest.schema
    yield from schema.names
    top = {field.id for field in schema.fields}
    yield from (path for id_, path in paths_by_id(schema).items() if id_ not in top)


def sql_columns(handle: LanceDataset) -> Iterator[str]:
    """Yield columns and nested fields in SQL spelling; each name of a path has its own quotes."""
    names = len(handle._snapshot.manifest.schema.names)
    for at, name in enumerate(columns(handle)):
        yield in_sql(name) if at < names else ".".join(map(in_sql, parse_path(name)))


def in_sql(name: str) -> str:
    """Return a name in SQL spelling, in backticks if necessary."""
    return name if _PLAIN.match(name) or name.startswith("`") else "`" + name + "`"


_LISTINGS: Mapping[str, Callable[[LanceDataset], list[object]]] = {
    TAGS: lambda handle: list(handle.tags.names()),
    BRANCHES: lambda handle: list(handle.branches.names()),
    VERSIONS: lambda handle: list(handle.versions().numbers),
}
_cache: dict[tuple[str, str], tuple[float, list[object]]] = {}
_threads: dict[tuple[str, str], threading.Thread] = {}


def cached_listing(place: LanceDataset | str, what: str) -> list[Any]:
    """Return the tags, branches or versions; a slow listing is cached for the next call.

    place: a handle, or the path of a dataset, which the thread opens.
    """
    key = place if isinstance(place, str) else place._location.uri, what
    when, names = _cache.get(key, (-_KEEP_SECONDS, []))
    if monotonic() - when < _KEEP_SECONDS:
        return names

    def list_names() -> None:
        try:
            found = _LISTINGS[what](LanceDataset(place) if isinstance(place, str) else place)
        except Exception:  # the call that is being completed reports the error
            found = []
        _cache[key] = monotonic(), found

    running = _threads.get(key)
    if running is None or not running.is_alive():
        running = _threads[key] = threading.Thread(target=list_names, daemon=True)
        running.start()
    running.join(_WAIT_SECONDS)
    return _cache.get(key, (0.0, names))[1]
