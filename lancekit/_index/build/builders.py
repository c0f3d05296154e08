"""The functions that build, read and merge each kind of index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from lancekit._format.index import zone_map_details
from lancekit._index.build.btree import SortedRows
from lancekit._index.build.column import Content, IndexedColumn
from lancekit._index.build.full_text import TextRows, bare_text, checked_params, read_text
from lancekit._index.build.postings import Labels, TokenRows, ValueRows
from lancekit._index.build.read import (
    OpenSegment,
    bare_btree,
    read_bitmap,
    read_bloom,
    read_btree,
    read_labels,
    read_ngrams,
    read_zone_map,
)
from lancekit._index.build.vectors import VectorRows, bare_vectors, read_vectors
from lancekit._index.build.zones import BloomZones, ZoneMap
from lancekit._index.kinds import (
    BITMAP,
    BLOOM_FILTER,
    BTREE,
    INVERTED,
    LABEL_LIST,
    NGRAM,
    VECTORS,
    ZONE_MAP,
    IndexKind,
)
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 32:
        raise InvalidArgumentError(f"{name} must be an integer of 1 or more, got {shown(value)}.")
    return value


def _probability(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidArgumentError(
            f"{name} must be a number between 0 and 1, got {shown(value)}.",
            hint="Pass a number such as 0.01.",
        )
    return float(value)


def _as_it_is(_name: str, value: object) -> object:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """The operations on the content of one kind of index.

    parameters: the public parameters, by pylance's names: each with its argument of `build` and its
        check.
    mergeable: returns whether two segments can be merged without rebuilding.
    more: builds the content of new rows for an existing segment. By default, `build` does so with
        the segment's parameters.
    model: trains an empty index on a sample of a column, its total row count and parameters. Parts
        that are merged later extend it. ``None`` if the sample is not sufficient. Only for kinds
        that are trained.
    details: returns the details for the manifest.
    adapted: returns a segment's content, adapted to the other segments of its index.
    bare: returns an empty index with the settings of an existing one, to be extended; only for
        kinds that generations of shards have.
    """

    build: Callable[..., Content]
    read: Callable[[OpenSegment], Content]
    merged: Callable[[Any], Content]
    parameters: Mapping[str, tuple[str, Callable[[str, Any], object]]] = field(default_factory=dict)
    mergeable: Callable[[Any, Any], bool] = lambda _one, _other: True
    more: Callable[[Any, IndexedColumn], Content] | None = None
    model: Callable[..., Content | None] | None = None
    details: Callable[[Any], bytes] = lambda _content: b""
    adapted: Callable[[Any, Sequence[OpenSegment]], Content] | None = None
    bare: Callable[[OpenSegment], Content] | None = None

    def made(self, column: IndexedColumn, parameters: Mapping[str, object]) -> Content:
        """Build the content of a segment, with checked parameters."""
        return self.build(
            column, **{self.parameters[name][0]: value for name, value in parameters.items()}
        )

    def extended(self, content: Content, column: IndexedColumn) -> Content:
        """Build the content of new rows, to be merged with an existing segment's."""
        if self.more is not None:
            return self.more(content, column)
        return self.made(column, content.parameters)


_BUILDERS: Mapping[str, Builder] = {
    BTREE.name: Builder(
        build=SortedRows.build,
        read=read_btree,
        merged=SortedRows.merged,
        parameters={"zone_size": ("page_rows", _count)},
        bare=bare_btree,
    ),
    BITMAP.name: Builder(build=ValueRows.build, read=read_bitmap, merged=ValueRows.merged),
    LABEL_LIST.name: Builder(build=Labels.build, read=read_labels, merged=Labels.merged),
    NGRAM.name: Builder(build=TokenRows.build, read=read_ngrams, merged=TokenRows.merged),
    ZONE_MAP.name: Builder(
        build=ZoneMap.build,
        read=read_zone_map,
        merged=ZoneMap.merged,
        parameters={"rows_per_zone": ("zone_rows", _count)},
        details=lambda content: zone_map_details(content.zone_rows),
    ),
    BLOOM_FILTER.name: Builder(
        build=BloomZones.build,
        read=read_bloom,
        merged=BloomZones.merged,
        parameters={
            "number_of_items": ("zone_rows", _count),
            "probability": ("probability", _probability),
        },
    ),
    INVERTED.name: Builder(
        build=TextRows.build,
        read=read_text,
        merged=TextRows.merged,
        parameters={"params": ("params", checked_params), "details": ("details", _as_it_is)},
        mergeable=TextRows.is_mergeable_with,
        adapted=TextRows.in_form_of,
        details=attrgetter("details"),
        bare=bare_text,
    ),
    VECTORS.name: Builder(
        build=VectorRows.build,
        read=read_vectors,
        merged=VectorRows.merged,
        parameters={
            name: (name, _as_it_is) for name in ("settings", "partitions", "centroids", "words")
        },
        mergeable=VectorRows.is_mergeable_with,
        more=VectorRows.more,
        model=VectorRows.model,
        details=attrgetter("details"),
        bare=bare_vectors,
    ),
}


def builder_of(kind: IndexKind) -> Builder:
    """Return the operations of an index kind."""
    return _BUILDERS[kind.name]


def parsed_parameters(kind: IndexKind, given: Mapping[str, object]) -> dict[str, Any]:
    """Check the parameters of a new index.

    Raises InvalidArgumentError: the kind has no such parameter, or the value is invalid.
    """
    known = builder_of(kind).parameters
    for name in given:
        if name not in known:
            has = ", ".join(known) or "none"
            raise InvalidArgumentError(
                f"An index of type {kind.name} has no parameter {shown(name)}.",
                hint=f"Its parameters: {has}.",
                argument=name,
            )
    return {name: known[name][1](name, value) for name, value in given.items()}
