"""The tokens of a partition, and the number that each has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.index.inverted.fst import Fst
from lancekit.index.inverted.fst_items import fst_items
from lancekit.index.segment import IndexFileReader

__all__ = ["ARROW", "FST", "TokenSet", "open_tokens"]

#: forms: a map, and columns
FST, ARROW = "fst", "arrow"


class TokenSet(Protocol):
    """Tokens and their numbers.

    Attributes
    ----------
    form
        How its file holds them.
    """

    @property
    def form(self) -> str:
        """How its file holds them."""

    def get(self, token: str) -> int | None:
        """Return the number of a token, ``None`` if it is not there."""

    def words(self) -> pa.Array:
        """Return all of them, in the order of their numbers.

        Raises
        ------
        CorruptFileError
            They are not numbered from 0 on.
        """


@dataclass(frozen=True, eq=False, slots=True)
class _FstTokens:
    fst: Fst
    where: str
    form = FST

    def get(self, token: str) -> int | None:
        return self.fst.get(token.encode())

    def words(self) -> pa.Array:
        words, numbers = fst_items(self.fst)
        _check_numbers(numbers, self.where)
        try:
            return words.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"{self.where} has tokens that are no UTF-8.") from error


@dataclass(frozen=True, eq=False, slots=True)
class _ArrowTokens:
    tokens: pa.Array
    numbers: pa.Array
    where: str
    form = ARROW

    def get(self, token: str) -> int | None:
        place = pc.index(self.tokens, token).as_py()
        found: int | None = None if place < 0 else self.numbers[place].as_py()
        return found

    def words(self) -> pa.Array:
        order = np.argsort(self.numbers.to_numpy(), kind="stable")
        _check_numbers(self.numbers.to_numpy()[order], self.where)
        return ak.take(self.tokens, order)


def _check_numbers(ascending: npt.NDArray[Any], where: str) -> None:
    if not np.array_equal(ascending, np.arange(len(ascending))):
        raise CorruptFileError(f"{where} has tokens that are not numbered from 0 on.")


def open_tokens(file: IndexFileReader, form: str) -> TokenSet:
    """Return the tokens of a file; ``form`` is how it holds them.

    Raises
    ------
    UnsupportedFeatureError
        The form is not known.
    LancekitError
        The file is damaged.
    """
    if form == FST:
        return file.remembered("fst", lambda: _read_map(file), lambda made: len(made.fst.data))
    if form == ARROW:
        return file.remembered(
            "tokens",
            lambda: _ArrowTokens(file.read("_token"), file.read("_token_id"), file.where),
            lambda made: made.tokens.nbytes + made.numbers.nbytes,
        )
    raise UnsupportedFeatureError(
        f"{file.where} holds tokens as {form!r}.", hint="Forms 'fst' and 'arrow' are known."
    )


def _read_map(file: IndexFileReader) -> _FstTokens:
    (data,) = file.read("_token_fst_bytes", range(1))
    return _FstTokens(Fst(data.as_py(), file.where), file.where)
