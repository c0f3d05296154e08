"""The stable row ids of a fragment's rows, for hand-made transactions (docs/format/table.md, 5.2).

Names follow ``lance.fragment``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._checked import is_whole
from lancekit._format.data_file import RowIdMeta
from lancekit._format.row_ids import count_row_ids, read_row_ids
from lancekit._format.row_ids_encode import encode_row_ids
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError, RowOutOfRangeError

U64Array = npt.NDArray[np.uint64]

#: the first value above all row ids
_END = 1 << 64

_AT_ONCE = 1 << 16
_SHOWN = 10
_HINT = "Pass a range, whole numbers, or an Arrow array of them."


class RowIdSequence:
    """The stable row ids of one fragment's rows, in row order.

    A fragment of a hand-made transaction carries the ids of rows that it moves.  There can be fewer
    ids than rows: they belong to the first rows, and the commit assigns ids to the others.  Two
    rules are not checked: the ids must exist in the table, and the transaction must delete the rows
    at their old place.

    Parameters
    ----------
    row_ids
        Whole numbers, all different.  A range with step 1 is not expanded.

    Raises
    ------
    InvalidTypeError
        A value is not a whole number.
    InvalidArgumentError
        An id is null or a duplicate.
    RowOutOfRangeError
        An id is negative, or needs more than 64 bits.

    Examples
    --------
    >>> from lancekit.fragment import RowIdSequence
    >>> ids = RowIdSequence([7, 12, 3])
    >>> ids
    RowIdSequence([7, 12, 3])
    >>> RowIdSequence.from_inline_metadata(ids.to_inline_metadata()) == ids
    True
    """

    __slots__ = ("_data", "_ids")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as pylance's

    def __init__(self, row_ids: range | pa.Array | pa.ChunkedArray | Iterable[int]) -> None:
        ids = _checked(row_ids)
        self._read(encode_row_ids(ids) if len(ids) else b"")

    def _read(self, data: bytes) -> None:
        where = "a RowIdSequence"
        self._data = data
        self._ids = read_row_ids(data, count_row_ids(data, where), where)

    @staticmethod
    def from_inline_metadata(metadata: RowIdMeta) -> RowIdSequence:
        """Decode the ids of a fragment's ``row_id_meta``.

        Raises
        ------
        CorruptFileError
            The bytes cannot be decoded.
        """
        if not isinstance(metadata, RowIdMeta):
            raise InvalidTypeError(
                f"metadata must be a RowIdMeta, got {shown(metadata)}.",
                hint="Pass the row_id_meta of a fragment with stable row ids.",
                argument="metadata",
            )
        sequence = RowIdSequence.__new__(RowIdSequence)
        sequence._read(metadata.data)
        return sequence

    def to_inline_metadata(self) -> RowIdMeta:
        """Encode the ids as a fragment's ``row_id_meta``."""
        return RowIdMeta(self._data)

    def to_pyarrow(self) -> pa.Array:
        """Return the ids as an Arrow array."""
        return pa.array(self._ids.values())

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        # in pieces: an expanded range can exceed the memory
        for start in range(0, len(self), _AT_ONCE):
            piece = np.arange(start, min(start + _AT_ONCE, len(self)))
            yield from self._ids.at(piece).tolist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowIdSequence):
            return NotImplemented
        if self._data == other._data:
            return True
        # other writers may divide the same ids into other segments
        return len(self) == len(other) and all(map(int.__eq__, self, other))

    def __repr__(self) -> str:
        first = ", ".join(map(str, islice(self, _SHOWN)))
        more = f", ...], len={len(self)}" if len(self) > _SHOWN else "]"
        return f"RowIdSequence([{first}{more})"

    def __reduce__(self) -> tuple[object, ...]:
        return RowIdSequence.from_inline_metadata, (self.to_inline_metadata(),)


def _checked(row_ids: object) -> range | U64Array:
    """Return valid ids; duplicates are an error."""
    if isinstance(row_ids, range):
        for bound in (row_ids[0], row_ids[-1]) if row_ids else ():
            _check_bound(bound)
        # a stored range has an exclusive end
        if row_ids.step == 1 and row_ids.stop < _END:
            return row_ids
        return np.fromiter(row_ids, np.uint64, len(row_ids))
    values = _from_arrow(row_ids) if isinstance(row_ids, pa.Array | pa.ChunkedArray) else None
    if values is None:
        values = _from_items(row_ids)
    unique, counts = np.unique(values, return_counts=True)
    if len(unique) != len(values):
        twice = int(unique[counts > 1][0])
        raise InvalidArgumentError(
            f"Row ids must be unique, but {twice} occurs more than once.",
            hint="Pass each id once.",
            row_id=twice,
        )
    return values


def _from_arrow(row_ids: pa.Array | pa.ChunkedArray) -> U64Array:
    if not pa.types.is_integer(row_ids.type):
        raise InvalidTypeError(
            f"Row ids must be an array of integers, not of {row_ids.type}.", hint=_HINT
        )
    if nulls := ak.null_count(row_ids):
        raise InvalidArgumentError(
            f"Row ids must not be null, but {nulls} of {len(row_ids)} are.", hint=_HINT
        )
    values = row_ids.to_numpy()
    if len(values):
        _check_bound(int(values.min()))
    return values.astype(np.uint64)


def _from_items(row_ids: object) -> U64Array:
    if isinstance(row_ids, str) or not isinstance(row_ids, Iterable):
        raise InvalidTypeError(
            f"Row ids must be an iterable of integers, not {shown(row_ids)}.", hint=_HINT
        )
    return np.fromiter(map(_checked_id, row_ids), np.uint64)


def _checked_id(value: Any) -> int:
    if not is_whole(value):
        raise InvalidTypeError(f"Not a row id: {shown(value)}.", hint=_HINT)
    return _check_bound(int(value))


def _check_bound(value: int) -> int:
    if not 0 <= value < _END:
        raise RowOutOfRangeError(
            f"Row ids must be non-negative and fit in a uint64, got {value}.",
            hint="Pass row ids of the table.",
            row_id=value,
        )
    return value
