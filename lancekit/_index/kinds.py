"""The kinds of scalar indices: their names, files, and the types that they index.

See docs/format/indices.md, 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from lancekit._format.arrow_parts import one_of
from lancekit._format.index import IndexMetadata

if TYPE_CHECKING:
    from typing_extensions import TypeIs


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKind:
    """One kind of scalar index.

    name: its name for `create_scalar_index`.
    label: its name in descriptions.
    details: the protobuf message of its details, with the package name that lancekit writes.
    written, newest: the index version that lancekit writes, and the newest that it reads.
    files: the names of its files, each with its columns.
    settings: the keys of its files' schema metadata that change how the files are read.
    exact: True if it returns exactly the matching rows, False if its rows must be filtered again.
    zones: True if it indexes ranges of rows of a fragment. Other kinds index single rows, by stable
        row id if the table has them, else by address.
    addresses_from: the index version from which on it names rows by address, even in a table with
        stable row ids.
    fits: returns True for a type that it can index.
    """

    name: str
    label: str
    details: str
    written: int = 0
    newest: int = 0
    files: Mapping[str, tuple[str, ...]]
    settings: tuple[str, ...] = ()
    exact: bool = True
    zones: bool = False
    addresses_from: int | None = None
    fits: Callable[[pa.DataType], bool]

    @property
    def type_url(self) -> str:
        """The type URL of its details in new manifests."""
        return f"/{self.details}"

    def describes(self, index: IndexMetadata) -> bool:
        """Return True if a segment is of this kind."""
        return _named(index) == _end(self.details)

    def has_addresses(self, index_version: int | None, stable_row_ids: bool) -> bool:
        """Return True if a segment of this kind names rows by address, not by row id."""
        if self.zones or not stable_row_ids:
            return True
        return self.addresses_from is not None and (index_version or 0) >= self.addresses_from

    def __reduce__(self) -> tuple[Callable[[str], IndexKind], tuple[str]]:
        # kinds are compared by `is`, so a worker must use its own instance, not a copy
        return _of_details, (self.details,)


def _end(details: str) -> str:
    """Return the name of a message in lower case, without its package, which releases vary."""
    return details.rpartition("/")[2].rpartition(".")[2].casefold()


_TEXT = (types.is_string, types.is_large_string)
_BYTES = (types.is_binary, types.is_large_binary)
_NUMBERS = (types.is_integer, types.is_float32, types.is_float64)
_TIMES = (types.is_date, types.is_time, types.is_timestamp)
_OTHERS = (types.is_boolean, types.is_float16, types.is_decimal, types.is_duration)

_is_text = one_of(*_TEXT)
_is_hashed = one_of(*_TEXT, *_BYTES, *_NUMBERS, *_TIMES)
_is_plain = one_of(_is_hashed, *_OTHERS, types.is_fixed_size_binary)


def _is_list(kind: pa.DataType) -> TypeIs[pa.ListType | pa.LargeListType]:
    return (types.is_list(kind) or types.is_large_list(kind)) and _is_plain(kind.value_type)


def _is_of_vectors(kind: pa.DataType) -> bool:
    if not types.is_fixed_size_list(kind):
        return False
    return types.is_floating(kind.value_type) or types.is_uint8(kind.value_type)


_KEYS = {"bitmap_page_lookup.lance": ("keys", "bitmaps")}
_ZONE = ("fragment_id", "zone_start", "zone_length")

BTREE = IndexKind(
    name="BTREE",
    label="BTree",
    details="lance.table.BTreeIndexDetails",
    newest=1,
    files={
        "page_data.lance": ("values", "ids"),
        "page_lookup.lance": ("min", "max", "null_count", "page_idx"),
    },
    settings=("batch_size", "range_partitioned", "page_num_per_range_partition"),
    addresses_from=1,
    fits=_is_plain,
)
BITMAP = IndexKind(
    name="BITMAP",
    label="Bitmap",
    details="lance.table.BitmapIndexDetails",
    files=_KEYS,
    fits=_is_plain,
)
LABEL_LIST = IndexKind(
    name="LABEL_LIST",
    label="LabelList",
    details="lance.table.LabelListIndexDetails",
    written=1,
    newest=1,
    files=_KEYS,
    settings=("lance:label_list_nulls",),
    fits=_is_list,
)
NGRAM = IndexKind(
    name="NGRAM",
    label="NGram",
    details="lance.table.NGramIndexDetails",
    files={"ngram_postings.lance": ("tokens", "posting_list")},
    exact=False,
    fits=_is_text,
)
ZONE_MAP = IndexKind(
    name="ZONEMAP",
    label="ZoneMap",
    details="lance.table.ZoneMapIndexDetails",
    files={"zonemap.lance": ("min", "max", "null_count", "nan_count", *_ZONE)},
    settings=("rows_per_zone", "null_bitmap"),
    exact=False,
    zones=True,
    fits=_is_plain,
)
BLOOM_FILTER = IndexKind(
    name="BLOOMFILTER",
    label="BloomFilter",
    details="lance.index.pb.BloomFilterIndexDetails",
    files={"bloomfilter.lance": (*_ZONE, "has_null", "bloom_filter_data")},
    settings=("bloomfilter_item", "bloomfilter_probability", "null_bitmap"),
    exact=False,
    zones=True,
    fits=_is_hashed,
)
#: full-text indices; they answer searches, not filters
INVERTED = IndexKind(
    name="INVERTED",
    label="Inverted",
    details="lance.table.InvertedIndexDetails",
    written=2,
    newest=3,
    files={"metadata.lance": ("deleted_fragments",)},
    settings=(
        "params",
        "partitions",
        "posting_block_size",
        "posting_tail_codec",
        "token_set_format",
    ),
    fits=lambda kind: _is_text(kind.value_type if _is_list(kind) else kind),
)
#: vector indices that store the vectors; other types of vector indices have the same details
VECTORS = IndexKind(
    name="IVF_FLAT",
    label="IVF_FLAT",
    details="lance.index.pb.VectorIndexDetails",
    written=1,
    newest=2,
    files={"index.idx": (), "auxiliary.idx": ("_rowid", "flat")},
    fits=_is_of_vectors,
)

#: all kinds that answer filters, by name
KINDS: Mapping[str, IndexKind] = {
    kind.name: kind for kind in (BTREE, BITMAP, LABEL_LIST, NGRAM, ZONE_MAP, BLOOM_FILTER)
}
_BY_DETAILS = {_end(kind.details): kind for kind in KINDS.values()}
#: all kinds that are updated when rows are added, deleted or moved
_UPDATABLE = _BY_DETAILS | {_end(kind.details): kind for kind in (INVERTED, VECTORS)}


def _of_details(details: str) -> IndexKind:
    return _UPDATABLE[_end(details)]


#: the kinds that are recognized by a file name that no other kind has
_BY_FILE = {
    name: _end(kind.details)
    for kind in (BTREE, NGRAM, ZONE_MAP, BLOOM_FILTER, INVERTED)
    for name in kind.files
}


def _named(index: IndexMetadata) -> str:
    """Return the name of a segment's details; without details, it is inferred from its files."""
    if index.index_details is not None:
        return _end(index.type_url)
    return next((_BY_FILE[file.path] for file in index.files if file.path in _BY_FILE), "")


def kind_of(index: IndexMetadata) -> IndexKind | None:
    """Return the kind of a segment; ``None`` if it does not answer filters.

    Examples
    --------
    >>> from uuid import uuid4
    >>> from lancekit._format.index import IndexDetails
    >>> details = IndexDetails("type.googleapis.com/lance.index.pb.btreeindexdetails")
    >>> kind_of(IndexMetadata(uuid4(), "x_idx", index_details=details)).name
    'BTREE'
    """
    return _BY_DETAILS.get(_named(index))


def kept_up_as(index: IndexMetadata) -> IndexKind | None:
    """Return the kind of a segment that can be updated with new rows; ``None`` for others.

    Every vector index has the kind `VECTORS`: only its files show its codes and its graph.
    """
    return _UPDATABLE.get(_named(index))


def first_of(
    kind: IndexKind, indices: Iterable[IndexMetadata], field_id: int
) -> tuple[IndexMetadata, ...]:
    """Return the segments of a column's first index of the given kind, or ``()``."""
    found = [index for index in indices if index.fields == (field_id,) and kind.describes(index)]
    return tuple(index for index in found if index.name == found[0].name)
