"""What is asked of indices, from the arguments of the methods that make them and keep them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from lancekit._index.kinds import VECTORS, IndexKind
from lancekit._operations.index.create import IndexRequest
from lancekit._operations.index.optimize import OptimizeRequest
from lancekit.progress import IndexProgress

Told = Callable[[IndexProgress], object]


def scalar_request(
    column: str | Sequence[str],
    index_type: str | IndexConfig,
    name: str | None,
    *,
    replace: bool,
    train: bool,
    index_uuid: str | None,
    progress_callback: Told | None,
    format_version: object,
    document_granularity: object,
    kwargs: dict[str, object],
) -> IndexRequest:
    """Return what `create_scalar_index` asks for, of all fragments."""
    refuse(
        "create_scalar_index",
        format_version=None if format_version in (2, "2", "v2") else format_version,
        document_granularity=None if document_granularity == "row" else document_granularity,
    )
    kind, parameters = index_parameters(index_type, kwargs, "create_scalar_index")
    return _request(
        column,
        kind,
        name,
        parameters,
        replace=replace,
        train=train,
        index_uuid=index_uuid,
        progress_callback=progress_callback,
    )


def vector_request(
    column: str | Sequence[str],
    index_type: str,
    name: str | None,
    *,
    replace: bool,
    train: bool,
    fragment_ids: list[int] | None,
    index_uuid: str | None,
    progress_callback: Told | None,
    **settings: Any,
) -> IndexRequest:
    """Return what `create_index` asks for; `settings` are those of vectors."""
    if fragment_ids is not None:
        raise no_fragments("create_index")
    return _request(
        column,
        VECTORS,
        name,
        vector_parameters("create_index", index_type, **settings),
        replace=replace,
        train=train,
        index_uuid=index_uuid,
        progress_callback=progress_callback,
    )


def _request(
    column: str | Sequence[str],
    kind: IndexKind,
    name: str | None,
    parameters: Mapping[str, object],
    *,
    replace: bool,
    train: bool,
    index_uuid: str | None,
    progress_callback: Told | None,
) -> IndexRequest:
    return IndexRequest(
        column=one_column(column),
        kind=kind,
        name=name,
        parameters=parameters,
        replace=check_flag("replace", replace),
        train=check_flag("train", train),
        uuid=uuid_of(index_uuid),
        progress=check_callback("progress_callback", progress_callback),
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
