"""Validation of the ``nearest`` argument of scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._arguments.checks import check_count, check_flag, check_known
from lancekit._checked import is_whole
from lancekit._choice import check_choice
from lancekit._format.index import IndexMetadata
from lancekit._format.paths import canonical, find_field, show_path
from lancekit._format.schema import LanceSchema
from lancekit._index.distances import ALIASES, COMPUTED_AS, METRICS_OF, Vectors
from lancekit._legible import shown
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.search.nearest import NearestSearch, VectorType
from lancekit._scan.search.vector_index import IndexedVectors, Probes, metric_of, vector_indices
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

_DEFAULT_K = 10


def nearest_search(
    given: object,
    snapshot: Snapshot,
    *,
    prefilter: bool = False,
    indexed_only: bool = False,
    limit: int | None = None,
) -> NearestSearch:
    """Convert a ``nearest`` argument to a search, which uses an existing index.

    Without `k` the search returns as many rows as the scan's limit, or 10.

    Raises InvalidTypeError, InvalidArgumentError: the argument is malformed or out of range.
    Raises ColumnNotFoundError: the column does not exist.
    """
    if not isinstance(given, Mapping):
        raise InvalidTypeError(
            f'nearest must be a dict with "column" and "q", got {shown(given)}.',
            hint='For example {"column": "embedding", "q": vector, "k": 10}.',
            argument="nearest",
        )
    check_known("nearest", given, (*_REQUIRED, *_OPTIONS), "ScannerBuilder.nearest()")
    for name in _REQUIRED:
        if given.get(name) is None:
            raise InvalidTypeError(
                f"nearest lacks {name!r}.",
                hint='It needs a column and a query vector: {"column": "embedding", "q": vector, '
                '"k": 10}.',
                argument=name,
            )
    options = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if name in _OPTIONS:
            _OPTIONS[name](name, value)
    _check_probes(options)
    column, schema = options["column"], snapshot.manifest.schema
    if not isinstance(column, str):
        raise InvalidTypeError(f"column must be the name of a column, got {shown(column)}.")
    kind = VectorType.of(column_field(schema, column))
    indices = _indices(options, snapshot)
    metric = options["metric"] if "metric" in options else metric_of(snapshot, indices)
    lower, upper = options.get("distance_range", (None, None))
    queries, batched = _query_vectors(options["q"], column, kind)
    metric = METRICS_OF[kind.value][0] if metric is None else _metric(metric, column, kind)
    search = NearestSearch(
        column=show_path([column]) if column in schema else canonical(column),
        queries=queries,
        metric=metric,
        k=int(options.get("k", limit or _DEFAULT_K)),
        batched=batched,
        prefilter=prefilter,
        lower=lower,
        upper=upper,
        index=None if kind.in_lists else _index(options, snapshot, indices, metric, indexed_only),
    )
    _check_names(search, schema)
    return search


def _index(
    options: Mapping[str, Any],
    snapshot: Snapshot,
    indices: tuple[IndexMetadata, ...],
    metric: str,
    only: bool,
) -> IndexedVectors | None:
    """Return the index that proposes rows, or ``None`` to read all rows."""
    if not indices and not only:
        return None
    exact = options.get("nprobes")
    probes = Probes(
        least=exact or options.get("minimum_nprobes", 1),
        most=exact or options.get("maximum_nprobes"),
        effort=None if exact else options.get("search_effort"),
        refine=options.get("refine_factor", 1),
    )
    return IndexedVectors(
        snapshot=snapshot, indices=indices, metric=metric, probes=probes, only=only
    )


def _indices(options: Mapping[str, Any], snapshot: Snapshot) -> tuple[IndexMetadata, ...]:
    if not snapshot.indices or not options.get("use_index", True):
        return ()
    field = find_field(snapshot.manifest.schema, options["column"])[-1]
    return vector_indices(snapshot, field.id)


def _metric(requested: object, column: str, kind: VectorType) -> str:
    if not isinstance(requested, str):
        raise InvalidTypeError(f"metric must be a name, got {shown(requested)}.")
    name = ALIASES.get(requested.lower(), requested.lower())
    if name not in METRICS_OF[kind.value]:
        raise InvalidArgumentError(
            f"metric {shown(requested)} does not support column {column!r} with vectors of "
            f"{kind.value}.",
            hint=f"Choose {', '.join(METRICS_OF[kind.value])}.",
            metric=requested,
        )
    return name


def _check_names(search: NearestSearch, schema: LanceSchema) -> None:
    for field in search.made:
        if field.name in schema:
            raise InvalidArgumentError(
                f"Column {field.name!r} clashes with a column of search results.",
                hint="Rename it with alter_columns() first.",
                column=field.name,
            )


# ---- options


def _at_least(least: int) -> Callable[[str, object], object]:
    return lambda name, value: check_count(name, value, least=least)


def _check_effort(name: str, value: object) -> None:
    if not _is_number(value) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"{name} must be a number from 0 to 1, got {shown(value)}.")


def _check_parallelism(name: str, value: Any) -> None:
    if not is_whole(value) or value < -1:
        raise InvalidArgumentError(f"{name} must be an integer of -1 or more, got {shown(value)}.")


def _check_range(name: str, value: object) -> None:
    both = list(value) if isinstance(value, tuple | list) else []
    if len(both) != 2 or not all(one is None or _is_number(one) for one in both):
        raise InvalidTypeError(
            f"{name} must be two distances, got {shown(value)}.",
            hint="Pass a lower (inclusive) and an upper bound (exclusive), or None for no bound.",
            argument=name,
        )


def _is_number(value: object) -> TypeGuard[float | np.integer | np.floating]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _check_probes(options: Mapping[str, Any]) -> None:
    least, most = options.get("minimum_nprobes"), options.get("maximum_nprobes")
    if least is not None and most is not None and least > most:
        raise InvalidArgumentError(
            f"minimum_nprobes {least} is larger than maximum_nprobes {most}.", hint="Swap them."
        )


_REQUIRED = ("column", "q")
#: the check of each option; some options only affect indices and change no result
_OPTIONS: Mapping[str, Callable[[str, object], object]] = {
    "k": _at_least(1),
    "metric": lambda _name, _value: None,  # checked against the column later
    "nprobes": _at_least(1),
    "minimum_nprobes": _at_least(1),
    "maximum_nprobes": _at_least(1),
    "refine_factor": _at_least(1),
    "use_index": check_flag,
    "ef": _at_least(1),
    "query_parallelism": _check_parallelism,
    "approx_mode": lambda name, value: check_choice(name, value, ("fast", "normal", "accurate")),
    "distance_range": _check_range,
    "search_effort": _check_effort,
}

# ---- the query vectors, in any container of numbers

_HINT = "Pass a list or an array of numbers, or a list of several vectors."


def _query_vectors(q: object, column: str, kind: VectorType) -> tuple[Vectors, bool]:
    """Return the query vectors, and True if there can be several queries.

    The array has shape (queries, vectors of a query, dimensions), in the type of the distances.

    q: one or several vectors.  For a column of vectors, each is a query with its own result rows.
    For a column of lists of vectors, they form one query.

    Raises InvalidTypeError: ``q`` has no numbers.
    Raises InvalidArgumentError: the dimensions are wrong, or numbers exceed the column's range.
    """
    numbers = _numbers(q)
    if numbers.shape[-1] != kind.dimension:
        raise InvalidArgumentError(
            f"q has {numbers.shape[-1]} values, which does not match index column size: the "
            f"vectors of column {column!r} have {kind.dimension} values.",
            hint="Pass a vector of the same model.",
            argument="q",
        )
    vectors = _as_stored(np.atleast_2d(numbers), kind)
    if kind.in_lists:
        return vectors[np.newaxis], False
    return vectors[:, np.newaxis], numbers.ndim == 2


def _numbers(q: object) -> npt.NDArray[Any]:
    """Return a non-empty array of numbers in one or two dimensions."""
    try:
        found = np.asarray(_plain(q))
        if found.dtype == object:  # None becomes NaN
            found = found.astype(np.float64)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidTypeError(
            f"q must be a vector, got {shown(q)}: {error}.", hint=_HINT, argument="q"
        ) from error
    if found.dtype.kind not in "biuf" or found.ndim not in (1, 2) or not found.size:
        raise InvalidTypeError(f"q must be a vector, got {shown(q)}.", hint=_HINT, argument="q")
    return found


def _plain(q: object) -> object:
    """Convert Arrow values and bytes to values that NumPy accepts."""
    if isinstance(q, bytes | bytearray | memoryview):
        return np.frombuffer(q, np.uint8)
    if isinstance(q, pa.Scalar | pa.Array | pa.ChunkedArray):
        return q.as_py() if isinstance(q, pa.Scalar) else q.to_pylist()
    if isinstance(q, list | tuple):
        return [_plain(one) for one in q]
    if isinstance(q, str | dict | set):
        raise TypeError("it has no ordered numbers")
    return q


def _as_stored(numbers: npt.NDArray[Any], kind: VectorType) -> Vectors:
    """Convert numbers to the precision of the column."""
    compared = COMPUTED_AS[kind.value]
    if compared is np.uint8:
        whole = (numbers >= 0) & (numbers <= 255) & (np.floor(numbers) == numbers)
        if not whole.all():
            raise InvalidArgumentError(
                f"q contains {numbers[~whole][0]}, but the vectors of the column are of uint8.",
                hint="Pass whole numbers from 0 to 255.",
                argument="q",
            )
    with np.errstate(over="ignore"):  # larger numbers become infinite
        if kind.value == "halffloat":
            numbers = numbers.astype(np.float16)
        return numbers.astype(compared)
