"""Requests for indices: their kinds and parameters, checked.  Names follow pylance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lancekit._api.vectors import centroids_of, codebook_of
from lancekit._arguments.checks import (
    check_callback,
    check_count,
    check_flag,
    check_hints,
    check_names,
    refuse,
    refuse_more,
)
from lancekit._arguments.index import VectorIndexArguments
from lancekit._checked import checked_methods
from lancekit._format.index import VectorSettings
from lancekit._index.build.full_text import text_parameters
from lancekit._index.build.vectors import PARTITION_ROWS
from lancekit._index.distances import ALIASES
from lancekit._index.inverted.settings import checked_settings
from lancekit._index.ivf.codes import PRODUCT_BITS
from lancekit._index.kinds import INVERTED, KINDS, VECTORS, IndexKind
from lancekit._legible import shown
from lancekit._operations.index.create import IndexRequest
from lancekit._operations.index.optimize import OptimizeRequest
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError
from lancekit.progress import IndexProgress

# ---- vector indices

_METRICS = ("l2", "cosine", "dot", "hamming")


def vector_parameters(arguments: VectorIndexArguments) -> dict[str, object]:
    """Return the parameters of a vector index, by the argument names of its builder.

    Raises NotOfferedError: lancekit does not make this type of index.
    Raises InvalidTypeError, InvalidArgumentError: an argument is invalid, or conflicts with
    another.
    """
    index_type, num_bits = arguments.index_type, arguments.num_bits
    num_partitions, num_sub_vectors = arguments.num_partitions, arguments.num_sub_vectors
    label = index_type.upper()
    if label not in PARTITION_ROWS:
        raise NotOfferedError(
            f"create_index does not support indices of type {shown(index_type)}.",
            hint=f"It creates vector indices: {', '.join(PARTITION_ROWS)}. For other columns use "
            f"ds.create_scalar_index({arguments.column!r}, {index_type!r}).",
            argument="index_type",
        )
    by = metric_named(arguments.metric)
    for argument in ("num_partitions", "target_partition_size", "num_sub_vectors"):
        count = getattr(arguments, argument)
        if count is not None:
            check_count(argument, count, least=1)
    if label != "IVF_PQ":
        num_sub_vectors, num_bits = None, 8
    elif num_sub_vectors is None:
        raise InvalidArgumentError(
            "num_partitions and num_sub_vectors are required for IVF_PQ; num_sub_vectors is None.",
            hint="Pass the number of parts of a vector, such as a sixteenth of its dimensions.",
            argument="num_sub_vectors",
        )
    elif num_bits not in PRODUCT_BITS or (num_bits == 4 and num_sub_vectors % 2):
        raise InvalidArgumentError(
            f"num_bits must be 8, or 4 with an even num_sub_vectors, got {shown(num_bits)} with "
            f"{num_sub_vectors}.",
            argument="num_bits",
        )
    settings = VectorSettings(
        label=label,
        metric=by,
        partition_rows=arguments.target_partition_size,
        parts=num_sub_vectors or 0,
        bits=num_bits,
    )
    given: dict[str, object] = {"settings": settings, "partitions": num_partitions}
    if arguments.ivf_centroids is not None:
        given["centroids"] = _centroids(arguments.ivf_centroids, num_partitions)
    if arguments.pq_codebook is not None and label == "IVF_PQ":
        if arguments.ivf_centroids is None:
            raise InvalidArgumentError(
                "ivf_centroids must be specified when pq_codebook is provided.",
                hint="A codebook encodes the residuals of vectors from their centroids.",
                argument="ivf_centroids",
            )
        given["words"] = codebook_of(arguments.pq_codebook, settings.parts, 1 << num_bits)
    return given


def metric_named(metric: object) -> str:
    """Return the canonical name of a metric."""
    by = metric.lower() if isinstance(metric, str) else None
    by = ALIASES.get(by, by) if by else None
    if by not in _METRICS:
        raise InvalidArgumentError(
            f"Metric {shown(metric)} not supported.",
            hint=f"metric must be one of {', '.join(_METRICS)}.",
            argument="metric",
        )
    return by


def _centroids(given: object, partitions: int | None) -> NDArray[np.floating | np.uint8]:
    found = centroids_of(given)
    if partitions not in (None, len(found)):
        raise InvalidArgumentError(
            f"Ivf centroids has {len(found)} clusters, but num_partitions={partitions}.",
            hint="Leave num_partitions out.",
            argument="num_partitions",
        )
    return found


# ---- kinds of indices, and their parameters

#: the fixed number of documents in a block of a posting list
_BLOCK_SIZE = 128

_CREATED: Mapping[str, IndexKind] = {**KINDS, INVERTED.name: INVERTED, "FTS": INVERTED}


@checked_methods
@dataclass(frozen=True, slots=True)
class IndexConfig:
    """A type of scalar index with its parameters, for `LanceDataset.create_scalar_index`.

    Parameters
    ----------
    index_type
        ``"btree"``, ``"zonemap"``, ...
    parameters
        ``zone_size`` (B-trees), ``rows_per_zone`` (zone maps), ``number_of_items`` and
        ``probability`` (Bloom filters), by name.

    Examples
    --------
    >>> import lancekit as lk
    >>> from lancekit.indices import IndexConfig
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://index-config-example")
    >>> _ = ds.create_scalar_index("x", IndexConfig("zonemap", {"rows_per_zone": 1000}))
    >>> ds.list_indices()[0]["type"]
    'ZoneMap'
    """

    index_type: str
    parameters: dict[str, Any] = field(default_factory=dict)


def kind_named(index_type: str | IndexConfig) -> tuple[IndexKind, Mapping[str, object]]:
    """Return the requested kind of index, and its parameters.

    Raises NotOfferedError: the kind is not supported.
    """
    if not isinstance(index_type, str | IndexConfig):
        raise InvalidTypeError(
            f"index_type must be a name or an IndexConfig, got {shown(index_type)}."
        )
    name = index_type if isinstance(index_type, str) else index_type.index_type
    kind = _CREATED.get(name.upper())
    if kind is None:
        raise NotOfferedError(
            f"Indices of type {shown(name)} are not supported.",
            hint="There are " + ", ".join(_CREATED) + ".",
            argument="index_type",
        )
    return kind, {} if isinstance(index_type, str) else index_type.parameters


def index_parameters(
    index_type: str | IndexConfig, more: dict[str, Any], method: str
) -> tuple[IndexKind, dict[str, object]]:
    """Return the requested kind of index, and the checked parameters of its builder."""
    if isinstance(index_type, str) and index_type.upper().startswith("IVF_"):
        refuse(method, progress_callback=more.pop("progress_callback", None))
        given = {"column": "", "index_type": index_type, **more}
        arguments = VectorIndexArguments.of(given, f"{method}()", "create_index()")
        return VECTORS, vector_parameters(arguments)
    kind, parameters = kind_named(index_type)
    if kind is not INVERTED:
        refuse_more(method, more)
        return kind, dict(parameters)
    given = {**parameters, **more}
    check_hints(**{name: given.pop(name, None) for name in ("memory_limit", "num_workers")})
    if given.get("block_size") == _BLOCK_SIZE:
        del given["block_size"]
    with_position = check_flag("with_position", given.pop("with_position", False))
    return kind, text_parameters(checked_settings(given), with_position=with_position)


def no_fragments(method: str) -> InvalidArgumentError:
    """Return the error for ``fragment_ids`` in a method that indexes all rows."""
    return InvalidArgumentError(
        f"{method} takes no fragment_ids, because it indexes all rows.",
        hint="Use create_index_uncommitted to index some fragments.",
        argument="fragment_ids",
    )


def one_column(column: str | Sequence[str]) -> str:
    """Return the name of the single column; ``NotOfferedError`` for several."""
    names = [column] if isinstance(column, str) else list(column)
    if len(names) != 1:
        raise NotOfferedError(
            f"An index of {len(names)} columns is not supported.", hint="Pass one column."
        )
    return names[0]


def uuid_of(text: str | None) -> UUID | None:
    """Parse an optional UUID."""
    return None if text is None else parsed_uuid(text)


def parsed_uuid(text: str, argument: str = "index_uuid") -> UUID:
    """Parse a UUID; ``InvalidArgumentError`` if the text is not a UUID."""
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{argument} must be the text of a UUID, got {shown(text)}.", argument=argument
        ) from error


# ---- requests of the methods that create and optimize indices


class _CommonArguments(TypedDict):
    """The common arguments of all kinds of indices."""

    column: str | Sequence[str]
    name: str | None
    replace: bool
    train: bool
    index_uuid: str | None
    progress_callback: Callable[[IndexProgress], object] | None


def scalar_request(
    index_type: str | IndexConfig,
    *,
    format_version: object,
    document_granularity: object,
    kwargs: dict[str, object],
    **common: Unpack[_CommonArguments],
) -> IndexRequest:
    """Return the request of `create_scalar_index`, for all fragments."""
    refuse(
        "create_scalar_index",
        format_version=None if format_version in (2, "2", "v2") else format_version,
        document_granularity=None if document_granularity == "row" else document_granularity,
    )
    kind, parameters = index_parameters(index_type, kwargs, "create_scalar_index")
    return _request(kind, parameters, **common)


def vector_request(arguments: VectorIndexArguments) -> IndexRequest:
    """Return the request of `create_index`."""
    if arguments.fragment_ids is not None:
        raise no_fragments("create_index")
    return _request(
        VECTORS,
        vector_parameters(arguments),
        column=arguments.column,
        name=arguments.name,
        replace=arguments.replace,
        train=arguments.train,
        index_uuid=arguments.index_uuid,
        progress_callback=arguments.progress_callback,
    )


def _request(
    kind: IndexKind, parameters: Mapping[str, object], **common: Unpack[_CommonArguments]
) -> IndexRequest:
    return IndexRequest(
        column=one_column(common["column"]),
        kind=kind,
        name=common["name"],
        parameters=parameters,
        replace=check_flag("replace", common["replace"]),
        train=check_flag("train", common["train"]),
        uuid=uuid_of(common["index_uuid"]),
        progress=check_callback("progress_callback", common["progress_callback"]),
    )


def optimize_request(
    num_indices_to_merge: int | None,
    index_names: list[str] | None,
    retrain: bool | None,
    kwargs: Mapping[str, object],
) -> OptimizeRequest:
    """Return the request of `optimize_indices`."""
    refuse_more("optimize_indices", kwargs)
    merge = 1 if num_indices_to_merge is None else num_indices_to_merge
    return OptimizeRequest(
        merge=check_count("num_indices_to_merge", merge),
        names=None if index_names is None else check_names("index_names", index_names),
        retrain=check_flag("retrain", bool(retrain) if retrain is None else retrain),
    )
