"""Reading of segments, to merge them with others or to update their row addresses.

See docs/format/indices.md, 7 to 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lancekit._arrow_values import numbers_of
from lancekit._format.index import IndexMetadata
from lancekit._index.build.btree import PAGE_ROWS, SortedRows
from lancekit._index.build.files import segment_folder
from lancekit._index.build.postings import Labels, Postings, TokenRows, ValueRows
from lancekit._index.build.sorting import Words, whole
from lancekit._index.build.zones import (
    BLOOM_ITEMS,
    BLOOM_PROBABILITY,
    ZONE_ROWS,
    BloomZones,
    ZoneMap,
)
from lancekit._index.kinds import BTREE, VECTORS, IndexKind
from lancekit._index.row_sets import SetForm, decoded_set, decoded_sets
from lancekit._index.segment import IndexFileReader, Segment
from lancekit._storage.base import Store
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

BTREE_DATA, BTREE_LOOKUP = BTREE.files


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """The opened files of a segment.

    `column` is the type of the indexed column. A vector index without vectors has no files.
    """

    segment: Segment
    files: Mapping[str, IndexFileReader]
    column: pa.DataType

    @classmethod
    def open(
        cls, store: Store, index: IndexMetadata, kind: IndexKind, column: pa.DataType
    ) -> OpenSegment:
        """Open the files of a segment.

        Raises CorruptFileError: a file is missing, or lacks a column of its kind.
        Raises UnsupportedFeatureError: the segment has a version that is not supported yet.
        """
        if (index.index_version or 0) > kind.newest:
            raise UnsupportedFeatureError(
                f"Index {index.name!r} has version {index.index_version}, but this release "
                f"supports {kind.name} indices only up to version {kind.newest}."
            )
        segment = Segment(index, kind, store)
        try:
            files = {name: segment.file(name) for name in kind.files}
        except FileNotFoundError as error:
            if kind is VECTORS and not index.fragment_ids and not index.files:
                return cls(segment, {}, column)  # it has no vectors yet
            raise missing_files(segment) from error
        for name, columns in kind.files.items() if kind is not VECTORS else ():
            if missing := set(columns) - files[name].names:
                raise CorruptFileError(f"{files[name].where} has no column {min(missing)!r}.")
        return cls(segment, files, column)

    @property
    def details(self) -> bytes:
        """The details of the index in the manifest."""
        stored = self.segment.index.index_details
        return stored.value if stored else b""

    def table(self, name: str) -> pa.Table:
        """Read one of the files."""
        return self.files[name].table()

    def metadata(self, name: str) -> Mapping[str, str]:
        """Return the metadata of one of the files."""
        return self.files[name].metadata

    def rows(self, name: str, key: str) -> Words:
        """Return a row set from a buffer whose number is in the metadata.

        Raises UnsupportedFeatureError: the metadata has no such number.
        """
        number = self.metadata(name).get(key)
        if number is None:
            raise UnsupportedFeatureError(f"The index of an old release lacks {key}.")
        return decoded_set(self.files[name].buffer(number))


def missing_files(segment: Segment) -> CorruptFileError:
    """Return the error for a segment whose files are missing."""
    return CorruptFileError(
        f"Files of index {segment.index.name!r} are missing in "
        f"{segment.store.uri}/{segment_folder(segment.index.uuid)}.",
        hint="Create the index again.",
    )


Number = TypeVar("Number", int, float)


def _number(found: OpenSegment, name: str, key: str, default: Number) -> Number:
    text = found.metadata(name).get(key, str(default))
    try:
        return type(default)(text)
    except ValueError as error:
        raise CorruptFileError(f"Index parameter {key} has an invalid value {text!r}.") from error


def bare_btree(found: OpenSegment) -> SortedRows:
    """Return an empty B-tree with the settings of another one."""
    page_rows = _number(found, BTREE_LOOKUP, "batch_size", PAGE_ROWS)
    return SortedRows(found.column, pa.nulls(0, found.column), np.empty(0, np.uint64), page_rows)


def read_btree(found: OpenSegment) -> SortedRows:
    """Read a B-tree."""
    if found.metadata(BTREE_LOOKUP).get("range_partitioned") == "true":
        raise UnsupportedFeatureError("A B-tree index in several parts is not supported.")
    table = found.table(BTREE_DATA)
    rows = numbers_of(whole(table["ids"])).astype(np.uint64)
    return replace(bare_btree(found), values=whole(table["values"]), rows=rows)


def read_bitmap(found: OpenSegment) -> ValueRows:
    """Read a bitmap index."""
    return ValueRows(_postings(found), found.column)


def read_labels(found: OpenSegment) -> Labels:
    """Read a label index."""
    (name,) = found.files
    nulls = found.rows(name, "lance:label_list_nulls")
    return Labels(_postings(found), found.column, nulls)


def read_ngrams(found: OpenSegment) -> TokenRows:
    """Read an n-gram index."""
    return TokenRows(_postings(found, SetForm.PLAIN))


def _postings(found: OpenSegment, form: SetForm = SetForm.SIZED) -> Postings:
    (name,) = found.files
    keys, bitmaps = found.table(name).columns
    sets = decoded_sets(whole(bitmaps), form)
    places = np.repeat(np.arange(len(sets)), np.diff(sets.starts))
    # releases up to 4 do not sort keys
    return Postings.of(whole(keys), sets.rows, places)


def read_zone_map(found: OpenSegment) -> ZoneMap:
    """Read a zone map."""
    (name,) = found.files
    nulls = found.rows(name, "null_bitmap")
    return ZoneMap(found.table(name), nulls, _number(found, name, "rows_per_zone", ZONE_ROWS))


def read_bloom(found: OpenSegment) -> BloomZones:
    """Read a Bloom filter index."""
    (name,) = found.files
    return BloomZones(
        found.table(name),
        found.rows(name, "null_bitmap"),
        _number(found, name, "bloomfilter_item", BLOOM_ITEMS),
        _number(found, name, "bloomfilter_probability", BLOOM_PROBABILITY),
    )
