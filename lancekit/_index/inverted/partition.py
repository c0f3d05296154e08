"""Documents and their tokens: in a stored partition of an index, or in rows just read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.arrow_parts import string_parts
from lancekit._index.inverted.analyzer import TokenTable
from lancekit._index.inverted.postings import (
    PACKED,
    PostingForm,
    Postings,
    decode_positions,
    decode_postings,
)
from lancekit._index.inverted.token_set import TokenSet
from lancekit._index.segment import IndexFileReader
from lancekit._lazy import cached_property
from lancekit.errors import CorruptFileError, LancekitError, UnsupportedFeatureError

Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]
T = TypeVar("T")
N = TypeVar("N", bound=np.generic)

_NONE = Postings(np.empty(0, np.uint32), np.empty(0, np.uint32))


class Partition(Protocol):
    """Documents and their tokens."""

    @property
    def lengths(self) -> Numbers:
        """The number of tokens of each document."""

    @property
    def scored_lengths(self) -> Numbers:
        """The number of tokens of each document, as used for its score."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all documents."""

    def words(self) -> pa.Array:
        """Return all tokens."""

    def frequency(self, token: str) -> int:
        """Return the number of documents that have a token."""

    def postings(self, token: str) -> Postings | None:
        """Return the documents of a token and its counts; ``None`` if no document has it."""

    def positions(self, token: str) -> Numbers:
        """Return a token's word positions in its documents, one document after the other."""

    def remembered(
        self, token: str, what: str, make: Callable[[Postings], npt.NDArray[N]]
    ) -> npt.NDArray[N]:
        """Return an array derived from a token's postings, from the cache if possible."""


@dataclass(frozen=True, eq=False)
class StoredPartition:
    """A partition of an index.

    tokens_file, postings_file, documents_file: its files.
    form: the form of posting lists.
    """

    token_set: TokenSet
    tokens_file: IndexFileReader
    postings_file: IndexFileReader
    documents_file: IndexFileReader
    form: PostingForm

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        """The row of each document: its stable row id if the table has them, else its address."""
        return self._documents("_rowid")

    @property
    def lengths(self) -> Numbers:
        """The number of tokens of each document."""
        return self._documents("_num_tokens")

    @property
    def scored_lengths(self) -> Numbers:
        """The number of tokens of each document for its score: rounded down if blocks are large."""
        if self.form.is_plain:
            return self.lengths
        return self.documents_file.remembered(
            "rounded", lambda: _rounded(self.lengths), lambda found: int(found.nbytes)
        )

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all documents."""
        return self.documents_file.remembered("tokens", lambda: _sum(self.lengths), lambda _: 0)

    def words(self) -> pa.Array:
        """Return all tokens."""
        return self.postings_file.remembered(
            "words", self.token_set.words, lambda found: int(found.nbytes)
        )

    def frequency(self, token: str) -> int:
        """Return the number of documents that have a token."""
        number = self._number(token)
        return 0 if number is None else self._length(number)

    def postings(self, token: str) -> Postings | None:
        """Return the documents of a token."""
        number = self._number(token)
        if number is None:
            return None
        return self.postings_file.remembered(
            f"postings {number}", lambda: self._read(number), lambda found: found.nbytes
        )

    def positions(self, token: str) -> Numbers:
        """Return a token's word positions in its documents.

        Raises UnsupportedFeatureError: the index has no positions.
        """
        number, found = self._number(token), self.postings(token)
        if number is None or found is None:
            return np.empty(0, np.uint32)
        return self.postings_file.remembered(
            f"positions {number}",
            lambda: self._guarded(lambda: self._read_positions(number, found.counts)),
            lambda places: int(places.nbytes),
        )

    def remembered(
        self, token: str, what: str, make: Callable[[Postings], npt.NDArray[N]]
    ) -> npt.NDArray[N]:
        """Return an array derived from the postings of a token that the index has, cached."""
        return self.postings_file.remembered(
            f"{what} {self._number(token)}",
            lambda: make(self.postings(token) or _NONE),
            lambda made: int(made.nbytes),
        )

    @property
    def has_positions(self) -> bool:
        """True if the partition has the positions of tokens."""
        return bool({"_compressed_position", "_position"} & self.postings_file.names)

    def _number(self, token: str) -> int | None:
        number = self.token_set.get(token)
        if number is not None and number >= self.postings_file.num_rows:
            raise CorruptFileError(f"{self.postings_file.where} has no token {number}.")
        return number

    def _documents(self, column: str) -> npt.NDArray[Any]:
        file = self.documents_file
        return file.remembered(
            column, lambda: file.read(column).to_numpy().copy(), lambda found: int(found.nbytes)
        )

    def _length(self, number: int) -> int:
        lengths: Numbers = self.postings_file.remembered(
            "lengths",
            lambda: self.postings_file.read("_length").to_numpy().copy(),
            lambda found: int(found.nbytes),
        )
        return int(lengths[number])

    def _read(self, number: int) -> Postings:
        blocks = cast(
            "pa.ListArray", self.postings_file.read("_posting", range(number, number + 1))
        )
        data, ends = _bytes_of(blocks.values, blocks.offsets.to_numpy())
        found = self._guarded(lambda: decode_postings(data, ends, self._length(number), self.form))
        if len(found.docs) and int(found.docs.max()) >= self.documents_file.num_rows:
            raise self._damaged(f"document {found.docs.max()}, which does not exist")
        return found

    def _read_positions(self, number: int, counts: Numbers) -> Numbers:
        """Read the word positions of a token, given its number."""
        file, row = self.postings_file, range(number, number + 1)
        if "_compressed_position" in file.names:
            stream = file.read("_compressed_position", row)[0].as_py()
            offsets = cast("pa.ListArray", file.read("_position_block_offset", row))
            starts = offsets.flatten().to_numpy()
            data = np.frombuffer(stream, np.uint8)
            return decode_positions(data, starts.astype(np.int64), counts, self.form.block)
        if "_position" not in file.names:
            raise UnsupportedFeatureError(
                f"{file.where} has no token positions.",
                hint="Phrases need an index with with_position=True.",
            )
        if len(counts) and counts.max() >= PACKED:
            raise UnsupportedFeatureError(
                f"{file.where} stores token positions in blocks, which are not supported."
            )
        nested = cast("pa.ListArray", file.read("_position", row))
        each = cast("pa.ListArray", nested.flatten()).flatten()
        data, _ = _bytes_of(each, np.array([0, len(each)]))
        words = data.view("<u4")
        heads = np.cumsum(counts + 1) - (counts + 1)  # a document's positions begin with a count
        if len(words) != int(counts.sum()) + len(counts) or (words[heads] != counts).any():
            raise ValueError("positions that do not match the counts of a token")
        return np.delete(words, heads)

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except LancekitError:
            raise
        except (ValueError, IndexError) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> CorruptFileError:
        return CorruptFileError(f"{self.postings_file.where} has {what}.")


def _bytes_of(values: pa.Array, ends: Places) -> tuple[npt.NDArray[np.uint8], Places]:
    """Return the concatenated bytes of some binary values, and the end of each."""
    selected = values[int(ends[0]) : int(ends[-1])]
    bounds, whole = string_parts(selected)
    return whole[bounds[0] : bounds[-1]], bounds[1:] - bounds[0]


def _sum(numbers: Numbers) -> int:
    return int(numbers.sum(dtype=np.int64))


def _rounded(lengths: Numbers) -> Numbers:
    """Return numbers with only their four highest bits.

    Examples
    --------
    >>> _rounded(np.array([7, 15, 17, 255], np.uint32)).tolist()
    [7, 15, 16, 240]
    """
    bits = np.frexp(lengths.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0).astype(np.uint32)
    rounded: Numbers = lengths >> shift << shift
    return rounded


class FreshPartition:
    """A partition of rows that no index covers.

    blocks: the positions of rows in the dataset, and their tokens.
    wanted: the tokens to keep; ``None`` keeps all.
    """

    def __init__(
        self, blocks: Iterable[tuple[Places, TokenTable]], wanted: Collection[str] | None
    ) -> None:
        self._vocabulary: dict[str, int] = {}
        kept = [self._block(rows, table, wanted) for rows, table in blocks]
        counts = [len(part[0]) for part in kept]
        starts = np.cumsum([0, *counts])
        self.rows: Places = _all([part[0] for part in kept], np.int64)
        self.lengths: Numbers = _all([part[1] for part in kept], np.uint32)
        texts = [part[2] + start for part, start in zip(kept, starts, strict=False)]
        self.num_tokens = _sum(self.lengths)
        self._texts: Places = _all(texts, np.int64)
        self._codes: npt.NDArray[np.int32] = _all([part[3] for part in kept], np.int32)
        self._positions: npt.NDArray[np.int32] = _all([part[4] for part in kept], np.int32)

    def _block(
        self, rows: Places, table: TokenTable, wanted: Collection[str] | None
    ) -> tuple[Places, Numbers, Places, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the rows and lengths of documents; the text, code and position of each token."""
        lengths = np.bincount(table.texts, minlength=len(rows)).astype(np.uint32)
        filled = lengths > 0  # a row without tokens is no document
        mine = np.array(
            [
                self._vocabulary.setdefault(token, len(self._vocabulary))
                if wanted is None or token in wanted
                else -1
                for token in table.vocabulary
            ],
            np.int32,
        )
        codes = mine[table.codes]
        kept = codes >= 0
        place = np.cumsum(filled) - 1
        texts = place[table.texts[kept]]
        return rows[filled], lengths[filled], texts, codes[kept], table.positions[kept]

    @property
    def scored_lengths(self) -> Numbers:
        """The number of tokens of each document."""
        return self.lengths

    def words(self) -> pa.Array:
        """Return all tokens that were kept."""
        return pa.array(self._vocabulary, pa.string())

    def frequency(self, token: str) -> int:
        """Return the number of documents that have a token."""
        found = self.postings(token)
        return 0 if found is None else len(found.docs)

    def postings(self, token: str) -> Postings | None:
        """Return the documents of a token."""
        places = self._places(token)
        if not len(places):
            return None
        docs, counts = np.unique(self._texts[places], return_counts=True)
        return Postings(docs.astype(np.uint32), counts.astype(np.uint32))

    def positions(self, token: str) -> Numbers:
        """Return a token's word positions in its documents."""
        return self._positions[self._places(token)].astype(np.uint32)

    def remembered(
        self,
        token: str,
        what: str,  # noqa: ARG002
        make: Callable[[Postings], npt.NDArray[N]],
    ) -> npt.NDArray[N]:
        """Return an array derived from a token's postings; nothing is cached."""
        return make(self.postings(token) or _NONE)

    def _places(self, token: str) -> npt.NDArray[np.intp]:
        code = self._vocabulary.get(token)
        if code is None:
            return np.empty(0, np.intp)
        order, ends = self._order
        return order[(ends[code - 1] if code else 0) : ends[code]]

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The tokens sorted by their codes, in the order of texts, and the end of each code."""
        order = np.argsort(self._codes, kind="stable")
        ends = np.cumsum(np.bincount(self._codes, minlength=len(self._vocabulary)))
        return order, ends


def _all(parts: list[npt.NDArray[N]], kind: type[N]) -> npt.NDArray[N]:
    return np.concatenate([np.empty(0, kind), *parts])
