"""Indices of n-grams: the rows of every three letters or digits that stand behind each other.

See docs/format/indices.md, 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import null_flags
from lancekit._index.build.column import IndexedColumn, RowMap
from lancekit._index.build.files import NewFile
from lancekit._index.build.postings import Postings
from lancekit._index.row_sets import SetForm, encoded_sets
from lancekit._index.trigrams import NULL_TOKEN, trigrams

__all__ = ["TokenRows"]

#: texts whose n-grams are collected at a time: a row is kept once for each
_AT_A_TIME = 1 << 14

_SCHEMA = pa.schema(
    [
        pa.field("tokens", pa.uint32()),
        pa.field(
            "posting_list", pa.binary(), False, metadata={"lance-encoding:compression": "none"}
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class TokenRows:
    """What an index of n-grams holds: the rows of each."""

    postings: Postings

    @classmethod
    def build(cls, column: IndexedColumn) -> TokenRows:
        """Collect the rows of each n-gram, and those without text."""
        flags = null_flags(column.values)
        texts, rows, parts = column.values, column.rows, []
        if flags is not None:
            gone = rows[flags]
            parts.append((np.full(len(gone), NULL_TOKEN, np.uint32), gone))
            texts, rows = ak.drop_null(texts), rows[~flags]
        for start in range(0, len(texts), _AT_A_TIME):
            tokens, places = trigrams(texts.slice(start, _AT_A_TIME))
            # a text may have an n-gram several times
            pairs = np.unique(places.astype(np.uint64) << np.uint64(32) | tokens)
            owners = (pairs >> np.uint64(32)).astype(np.int64) + start
            parts.append((pairs.astype(np.uint32), rows[owners]))
        tokens = np.concatenate([part[0] for part in parts] or [np.empty(0, np.uint32)])
        found = np.concatenate([part[1] for part in parts] or [rows])
        return cls(Postings.of(pa.array(tokens), found))

    @classmethod
    def merged(cls, parts: Sequence[TokenRows]) -> TokenRows:
        """Put together what several hold."""
        return cls(Postings.merged([part.postings for part in parts]))

    @property
    def parameters(self) -> dict[str, Any]:
        """What users may ask of such an index: nothing."""
        return {}

    def moved(self, row_map: RowMap) -> TokenRows:
        """Return the same for rows that are elsewhere now, or gone."""
        return TokenRows(self.postings.moved(row_map))

    def files(self) -> Iterator[NewFile]:
        """Yield the file to write."""
        sets = encoded_sets(self.postings.sets, SetForm.PLAIN).cast(pa.binary())
        yield NewFile(
            name="ngram_postings.lance",
            schema=_SCHEMA,
            batches=[pa.RecordBatch.from_arrays([self.postings.keys, sets], schema=_SCHEMA)],
        )
