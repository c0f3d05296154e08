"""Entries of full-zip pages: where each begins, and its levels (docs/format/data-files.md, 8).

An entry is a control word, ``repetition << bits_def | definition``, and then, if it has a value,
the value's bytes: of fixed width for every visible entry, or behind their length for valid ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lancekit.file.kernels.faults import Damaged, require
from lancekit.file.kernels.memory import Bytes, Ints
from lancekit.file.structure.repdef import Layers, Words, ranges

__all__ = ["Entries", "EntryForm"]

#: With fewer rows left than this, a step for all of them costs more than a plain loop.
_FEW_ROWS = 48


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries at some places: their levels, and which of them have bytes."""

    starts: Ints
    repetition: Words | None
    definition: Words | None
    filled: NDArray[np.bool_] | None

    def filled_starts(self) -> Ints:
        """Return where the entries begin that have bytes."""
        return self.starts if self.filled is None else self.starts[self.filled]


@dataclass(frozen=True, slots=True)
class EntryForm:
    """How the entries of a page are laid out; exactly one of ``width`` and ``prefix`` is not 0."""

    #: bytes of a control word
    control: int
    bits_def: int
    #: the largest definition of an entry that has bytes
    filled: int
    #: bytes of a value
    width: int
    #: bytes of a value's length
    prefix: int
    layers: Layers

    @classmethod
    def of(
        cls, layers: Layers, *, bits_rep: int, bits_def: int, width: int = 0, prefix: int = 0
    ) -> EntryForm:
        """Check the widths of a page."""
        require(bits_rep <= 16 and bits_def <= 16, "levels of more than 16 bits")
        bits = bits_rep + bits_def
        control = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
        require(not layers.lists or bits_rep, "lists without repetition")
        require(layers.lists or not bits_rep, "repetition without lists")
        return cls(control, bits_def, 0 if prefix else layers.visible, width, prefix, layers)

    def levels(self, control: Bytes) -> tuple[Words | None, Words | None]:
        """Return the levels in control words, an array of shape (entries, bytes)."""
        if not self.control:
            return None, None
        words = np.ascontiguousarray(control).view(f"<u{self.control}").ravel()
        definition = None
        if self.bits_def:
            definition = (words & words.dtype.type((1 << self.bits_def) - 1)).astype(np.uint16)
        if not self.layers.lists:
            return None, definition
        return (words >> words.dtype.type(self.bits_def)).astype(np.uint16), definition

    def entries(self, data: Bytes, starts: Ints, stops: Ints) -> Entries:
        """Return the entries of rows that lie between ``starts`` and ``stops`` of ``data``."""
        require(len(stops) == 0 or stops[-1] <= data.size, "a row reaches outside of its page")
        places = self._places(data, starts, stops) if self.layers.lists else starts
        repetition, definition = self.levels(data[places[:, None] + np.arange(self.control)])
        filled = None if definition is None else definition <= self.filled
        return Entries(places, repetition, definition, filled)

    def _places(self, data: Bytes, starts: Ints, stops: Ints) -> Ints:
        """Return where every entry begins, in order."""
        sizes = stops - starts
        stride = self.control + self.width
        if self.prefix == 0 and self.filled == self.layers.largest:
            counts = sizes // stride
            require((counts * stride == sizes).all() and (counts > 0).all(), _UNEVEN)
            return _strided(starts, counts, stride)
        if self.prefix == 0 and self.layers.lists == 1 and self.width:
            # only a row that is null or empty has an entry without bytes, and it has no other
            counts = sizes // stride
            require(((counts * stride == sizes) | (sizes == self.control)).all(), _UNEVEN)
            return _strided(starts, np.maximum(counts, 1), stride)
        return self._walk(data, starts, stops)

    def _walk(self, data: Bytes, starts: Ints, stops: Ints) -> Ints:
        """Step through all rows together, an entry at a time, and through the longest alone."""
        found = []
        places = starts
        while len(places) > _FEW_ROWS:
            found.append(places)
            behind = self._next(data, places, stops)
            left = behind < stops
            places, stops = behind[left], stops[left]
        for place, stop in zip(places.tolist(), stops.tolist(), strict=True):
            found.append(self._walk_row(data, place, stop))
        joined = np.concatenate(found) if found else starts
        joined.sort()
        return joined

    def _next(self, data: Bytes, places: Ints, stops: Ints) -> Ints:
        """Return where the entries behind those at ``places`` begin."""
        require((places + self.control <= stops).all(), _UNEVEN)
        _, definition = self.levels(data[places[:, None] + np.arange(self.control)])
        behind = places + self.control
        filled = slice(None) if definition is None else np.flatnonzero(definition <= self.filled)
        behind[filled] += self.width
        if self.prefix:
            at = behind[filled]
            require((at + self.prefix <= stops[filled]).all(), _UNEVEN)
            lengths = self.lengths(data, at)
            require((lengths <= stops[filled] - at - self.prefix).all(), _UNEVEN)
            behind[filled] = at + self.prefix + lengths
        require((behind <= stops).all(), _UNEVEN)
        return behind

    def lengths(self, data: Bytes, places: Ints) -> Ints:
        """Return the lengths of values that are stored at ``places``."""
        stored = np.ascontiguousarray(data[places[:, None] + np.arange(self.prefix)])
        lengths = stored.view(f"<u{self.prefix}").ravel().astype(np.int64)
        require((lengths >= 0).all(), "a value of impossible length")
        return lengths

    def _walk_row(self, data: Bytes, place: int, stop: int) -> Ints:
        """Do the same for a single row."""
        found = []
        row = data[place:stop].tobytes()
        control, prefix, width, size = self.control, self.prefix, self.width, len(row)
        mask, filled = (1 << self.bits_def) - 1, self.filled
        at = 0
        while at < size:
            found.append(at)
            word = int.from_bytes(row[at : at + control], "little")
            at += control
            if word & mask <= filled:
                at += width
                if prefix:
                    at += prefix + int.from_bytes(row[at : at + prefix], "little")
        if at != size:
            raise Damaged(_UNEVEN)
        return np.array(found, np.int64) + place


_UNEVEN = "a row does not end where an entry does"


def _strided(starts: Ints, counts: Ints, stride: int) -> Ints:
    """Return the places of ``counts`` entries each, of one size, from ``starts`` on."""
    place = ranges(np.zeros(len(starts), np.int64), counts)
    place *= stride
    place += np.repeat(starts, counts)
    return place
