"""The tokens of a partition, and their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._index.inverted.fst import COMMON, HEAD, MANY, Fst
from lancekit._index.segment import IndexFileReader
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

#: forms of tokens: a map, and columns
FST, ARROW = "fst", "arrow"


class TokenSet(Protocol):
    """Tokens and their numbers."""

    @property
    def form(self) -> str:
        """The form of the tokens in their file."""

    def get(self, token: str) -> int | None:
        """Return the number of a token, ``None`` if the token is not in the set."""

    def words(self) -> pa.Array:
        """Return all tokens, in the order of their numbers.

        Raises CorruptFileError: they are not numbered from 0 on.
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
            raise CorruptFileError(f"{self.where} has tokens that are not UTF-8.") from error


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


def _check_numbers(ascending: npt.NDArray[np.generic], where: str) -> None:
    if not np.array_equal(ascending, np.arange(len(ascending))):
        raise CorruptFileError(f"{where} has tokens that are not numbered from 0.")


def open_tokens(file: IndexFileReader, form: str) -> TokenSet:
    """Return the tokens in a file; ``form`` is their form.

    Raises UnsupportedFeatureError: the form is unknown.
    Raises LancekitError: the file is damaged.
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
        f"{file.where} stores tokens in an unknown form {form!r}.",
        hint="Supported forms are 'fst' and 'arrow'.",
    )


def _read_map(file: IndexFileReader) -> _FstTokens:
    (data,) = file.read("_token_fst_bytes", range(1))
    return _FstTokens(Fst(data.as_py(), file.where), file.where)


# ---- all keys of a map in the form of the crate ``fst``, decoded many nodes at a time
#
# See docs/format/indices.md, 14.

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Damaged = Callable[[int], CorruptFileError]

#: deeper levels with fewer nodes are read one by one
_FEW, _DEEP = 64, 64
_MOST_BYTES, _MOST = 8, (1 << 64) - 1
_COMMON_BYTES = np.frombuffer(b"\0" + COMMON, np.uint8)


@dataclass(frozen=True, eq=False, slots=True)
class _Nodes:
    """Decoded nodes.

    is_final, finals: whether a key ends at each node, and its output then.
    owners: the index of each step's node.
    inputs, targets, outputs: the byte, the target address, and the output of each step.
    """

    is_final: npt.NDArray[np.bool_]
    finals: Words
    owners: Places
    inputs: Bytes
    targets: Places
    outputs: Words


@dataclass(frozen=True, eq=False, slots=True)
class _Level:
    """The steps to the nodes of a level: the node in the previous level, and the byte."""

    owners: Places
    inputs: Bytes


def fst_items(fst: Fst) -> tuple[pa.Array, Words]:
    """Return all keys in the order of their numbers, and the numbers.

    Raises CorruptFileError: the map is damaged.
    """
    data = np.frombuffer(fst.data, np.uint8)
    if fst.root >= len(data):
        raise fst.damaged(fst.root)
    at, totals = np.array([fst.root]), np.zeros(1, np.uint64)
    levels: list[_Level] = []
    keys: list[bytes] = []
    numbers: list[Words] = []
    while len(at) and (len(at) >= _FEW or len(levels) < _DEEP):
        if len(at) > max(fst.count, 1):  # each node leads to at least one key
            raise fst.damaged(int(at[0]))
        nodes = _nodes(data, at, fst.damaged)
        ended = np.flatnonzero(nodes.is_final)
        keys += _spelt(levels, ended)
        numbers.append(totals[ended] + nodes.finals[ended])
        levels.append(_Level(nodes.owners, nodes.inputs))
        at, totals = nodes.targets, totals[nodes.owners] + nodes.outputs
    deep: list[int] = []
    begun = _spelt(levels, np.arange(len(at)))
    for place, start in enumerate(begun):
        for key, number in fst.items(int(at[place])):
            if len(keys) >= fst.count:
                raise fst.damaged(int(at[place]))
            keys.append(start + key)
            deep.append(int(totals[place]) + number & _MOST)
    numbers.append(np.array(deep, np.uint64))
    found = np.concatenate(numbers)
    order = np.argsort(found, kind="stable")
    return ak.take(pa.array(keys, pa.binary()), order), found[order]


def _spelt(levels: list[_Level], which: Places) -> list[bytes]:
    """Return the bytes on the path to some nodes of the last level."""
    spelt = np.empty((len(which), len(levels)), np.uint8)
    for depth in reversed(range(len(levels))):
        spelt[:, depth] = levels[depth].inputs[which]
        which = levels[depth].owners[which]
    size, data = len(levels), spelt.tobytes()
    return [data[place * size : (place + 1) * size] for place in range(len(spelt))]


def _nodes(data: Bytes, at: Places, damaged: Damaged) -> _Nodes:
    """Decode the nodes at some addresses."""
    is_empty = at == 0
    outside = ~is_empty & ((at < HEAD) | (at >= len(data)))
    if outside.any():
        raise damaged(int(at[outside][0]))
    state = np.where(is_empty, 0, data[at]).astype(np.int64)
    code = state & 0x3F
    is_one, is_next = state >= 0x80, state >= 0xC0
    # the previous byte is the number of steps, or an input, if the first has no room for it
    before = at - (code == 0)
    counts = np.where(code == 0, data[before], code).astype(np.int64)
    counts[(code == 0) & (counts == 1)] = 256
    counts[is_one], counts[is_empty] = 1, 0
    sizes = np.where(is_next | is_empty, 0, data[before - 1]).astype(np.int64)
    wide, out = sizes >> 4, sizes & 15
    inputs = before - 1 - np.where(counts > MANY, 256, 0)
    deltas = inputs - np.where(is_one, 0, counts)
    deltas[is_next] += 1
    outputs = deltas - counts * wide
    ends = outputs - counts * out
    is_final = is_empty | (~is_one & (state & 0x40 > 0))
    ended = np.where(is_final, out, 0)
    starts = ends - ended
    bad = ~is_empty & ((starts < HEAD) | (wide > _MOST_BYTES) | (out > _MOST_BYTES))
    if bad.any():
        raise damaged(int(at[bad][0]))
    owners = np.repeat(np.arange(len(at)), counts)
    places = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    step_wide, step_out = wide[owners], out[owners]
    delta = _numbers(data, deltas[owners] - (places + 1) * step_wide, step_wide).astype(np.int64)
    targets = np.where(delta == 0, 0, starts[owners] - delta)
    targets[is_next[owners]] = starts[owners][is_next[owners]] - 1
    wrong = (targets != 0) & ((targets < HEAD) | (delta < 0))
    if wrong.any():
        raise damaged(int(at[owners[wrong]][0]))
    named = data[np.where(is_one[owners], before[owners], inputs[owners] - 1 - places)]
    common = is_one[owners] & (code[owners] > 0)
    named[common] = _COMMON_BYTES[code[owners[common]]]
    return _Nodes(
        is_final,
        _numbers(data, starts, ended),
        owners,
        named,
        targets,
        _numbers(data, outputs[owners] - (places + 1) * step_out, step_out),
    )


def _numbers(data: Bytes, at: Places, sizes: Places) -> Words:
    found = np.zeros(len(at), np.uint64)
    for byte in range(int(sizes.max(initial=0))):
        there = np.flatnonzero(sizes > byte)
        found[there] |= data[at[there] + byte].astype(np.uint64) << np.uint64(8 * byte)
    return found
