"""What is asked of indices, from the arguments of the methods that make them and keep them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

from lancekit._api.index_config import (
    IndexConfig,
    index_parameters,
    no_fragments,
    one_column,
    uuid_of,
)
from lancekit._api.vector_indices import vector_parameters
from lancekit._arguments.checks import (
    check_callback,
    check_count,
    check_flag,
    check_names,
    refuse,
    refuse_more,
)
from lancekit._arguments.index import VectorIndexArguments
from lancekit._index.kinds import VECTORS, IndexKind
from lancekit._operations.index.create import IndexRequest
from lancekit._operations.index.optimize import OptimizeRequest
from lancekit.progress import IndexProgress


class _Asked(TypedDict):
    """What is asked of an index of any kind."""

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
    **asked: Unpack[_Asked],
) -> IndexRequest:
    """Return what `create_scalar_index` asks for, of all fragments."""
    refuse(
        "create_scalar_index",
        format_version=None if format_version in (2, "2", "v2") else format_version,
        document_granularity=None if document_granularity == "row" else document_granularity,
    )
    kind, parameters = index_parameters(index_type, kwargs, "create_scalar_index")
    return _request(kind, parameters, **asked)


def vector_request(arguments: VectorIndexArguments) -> IndexRequest:
    """Return what `create_index` asks for."""
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
    kind: IndexKind, parameters: Mapping[str, object], **asked: Unpack[_Asked]
) -> IndexRequest:
    return IndexRequest(
        column=one_column(asked["column"]),
        kind=kind,
        name=asked["name"],
        parameters=parameters,
        replace=check_flag("replace", asked["replace"]),
        train=check_flag("train", asked["train"]),
        uuid=uuid_of(asked["index_uuid"]),
        progress=check_callback("progress_callback", asked["progress_callback"]),
    )


def optimize_request(
    num_indices_to_merge: int | None,
    index_names: list[str] | None,
    retrain: bool | None,
    kwargs: Mapping[str, object],
) -> OptimizeRequest:
    """Return what `optimize_indices` asks for."""
    refuse_more("optimize_indices", kwargs)
    merge = 1 if num_indices_to_merge is None else num_indices_to_merge
    return OptimizeRequest(
        merge=check_count("num_indices_to_merge", merge),
        names=None if index_names is None else check_names("index_names", index_names),
        retrain=check_flag("retrain", bool(retrain) if retrain is None else retrain),
    )
