"""The tokens of a partition, and the number that each has there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lancekit.errors import UnsupportedFeatureError
from lancekit.index.inverted.fst import Fst
from lancekit.index.segment import IndexFileReader

__all__ = ["TokenSet", "open_tokens"]


class TokenSet(Protocol):
    """Tokens and their numbers.

    Attributes
    ----------
    in_arrow
        Whether its file holds them as columns.
    """

    @property
    def in_arrow(self) -> bool:
        """Whether its file holds them as columns."""

    def get(self, token: str) -> int | None:
        """Return the number of a token, ``None`` if it is not there."""

    def words(self) -> pa.Array:
        """Return all of them."""

    def numbered(self) -> Iterator[tuple[str, int]]:
        """Yield all of them, each with its number."""


class _FstTokens:
    in_arrow = False

    def __init__(self, fst: Fst) -> None:
        self._fst = fst

    def get(self, token: str) -> int | None:
        return self._fst.get(token.encode())

    def words(self) -> pa.Array:
        return pa.array([key for key, _ in self._fst.items()], pa.binary()).cast(pa.string())

    def numbered(self) -> Iterator[tuple[str, int]]:
        return ((key.decode(), number) for key, number in self._fst.items())


class _ArrowTokens:
    in_arrow = True

    def __init__(self, tokens: pa.Array, numbers: pa.Array) -> None:
        self._tokens, self._numbers = tokens, numbers

    def get(self, token: str) -> int | None:
        place = pc.index(self._tokens, token).as_py()
        found: int | None = None if place < 0 else self._numbers[place].as_py()
        return found

    def words(self) -> pa.Array:
        return self._tokens

    def numbered(self) -> Iterator[tuple[str, int]]:
        return zip(self._tokens.to_pylist(), self._numbers.to_pylist(), strict=True)


def open_tokens(file: IndexFileReader, form: str) -> TokenSet:
    """Return the tokens of a file; ``form`` is how it holds them.

    Raises
    ------
    UnsupportedFeatureError
        The form is not known.
    LancekitError
        The file is damaged.
    """
    if form == "fst":
        data = file.read("_token_fst_bytes", range(1))[0].as_py()
        return file.remembered(
            "fst", lambda: _FstTokens(Fst(data, file.where)), lambda _: len(data)
        )
    if form == "arrow":
        return file.remembered(
            "tokens",
            lambda: _ArrowTokens(file.read("_token"), file.read("_token_id")),
            lambda made: made._tokens.nbytes + made._numbers.nbytes,
        )
    raise UnsupportedFeatureError(
        f"{file.where} holds tokens as {form!r}.", hint="Forms 'fst' and 'arrow' are known."
    )
