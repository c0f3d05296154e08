"""JSON columns: text for users, JSONB in storage.

A container is a header word, one word for each part, and the parts' bytes; words are big-endian.
The header's upper three bits are its kind (scalar, object, array), the other bits the number of
parts.  A part's word has the part's kind in the upper four bits and its length in the others.  An
object has all keys first, sorted by their bytes, then its values.  A number begins with a byte for
its kind.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from lancekit._legible import warn
from lancekit.errors import CorruptFileError, InvalidArgumentError

_SCALAR, _OBJECT, _ARRAY = 0x20000000, 0x40000000, 0x80000000
_KINDS, _COUNT = 0xE0000000, 0x1FFFFFFF
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(6)
_LENGTH = 0x0FFFFFFF

_ZERO, _NAN, _INFINITY, _NEGATIVE_INFINITY = 0x00, 0x10, 0x20, 0x30
_SIGNED, _UNSIGNED, _FLOAT = 0x40, 0x50, 0x60
#: whole numbers in this range are stored as integers, others as doubles
_LEAST, _MOST = -(2**63), 2**64 - 1
_WIDTHS = (1, 2, 4, 8)
#: matches texts that may lose digits: 16 digits in a row, or a very small exponent
_LONG = re.compile(r"\d[\d.]{15}|[eE]-\d{3}")


# ---- text to JSONB


def to_jsonb(texts: pa.Array) -> pa.Array:
    """Encode JSON texts; one warning lists numbers that lose digits.

    Raises InvalidArgumentError: a text is not JSON, or an object has a key twice.

    Examples
    --------
    >>> from_jsonb(to_jsonb(pa.array(['{"b": 1, "a": [true, null]}']))).to_pylist()
    ['{"a":[true,null],"b":1}']
    """
    lost: list[str] = []
    values = [None if text is None else _encode_text(text, lost) for text in texts.to_pylist()]
    if lost:
        few = len(lost) == 1
        warn(
            f"{len(lost)} JSON {'number loses' if few else 'numbers lose'} digits: {lost[0][:60]} "
            f"is stored as {float(lost[0])!r}, the nearest double. JSON columns store 64-bit "
            "integers and doubles; put other numbers in quotes to keep their digits."
        )
    return pa.array(values, pa.large_binary())


def _encode_text(text: str, lost: list[str]) -> bytes:
    """Encode a text; add numbers that lose digits to `lost`."""
    try:
        value = (_exact_decoder(lost) if _LONG.search(text) else _DECODER).decode(text)
        if isinstance(value, dict | list):
            return _container(value)
        kind, data = _part(value)
    except (ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{text[:60]!r} cannot be stored as JSON: {error}.",
            hint="Objects must have unique keys, and numbers must be finite.",
        ) from error
    return _scalar(kind, data)


def _scalar(kind: int, data: bytes) -> bytes:
    """Return a value that is no container as JSONB."""
    return struct.pack(">II", _SCALAR, kind << 28 | len(data)) + data


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _exact_decoder(lost: list[str]) -> json.JSONDecoder:
    """Return a decoder that adds numbers to `lost` whose stored form differs."""

    def whole(text: str) -> int:
        value = int(text)
        if not _LEAST <= value <= _MOST:
            lost.append(text)
        return value

    def fraction(text: str) -> float:
        value, exact = float(text), Decimal(text)
        # no digits are lost if the text is the double's shortest form, or the double rounded to
        # as many digits; Python and C differ in the last digit if two are equally near
        digits = Context(prec=len(exact.as_tuple().digits))
        known = exact in (Decimal(repr(value)), digits.plus(Decimal(value)))
        if math.isfinite(value) and not known:
            lost.append(text)
        return value

    return json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_constant=_no_constant,
        parse_int=whole,
        parse_float=fraction,
    )


def _container(value: dict[str, object] | list[object]) -> bytes:
    parts: list[tuple[int, bytes]]
    if isinstance(value, dict):
        keys = sorted(value, key=str.encode)
        parts = [(_STRING, key.encode()) for key in keys] + [_part(value[key]) for key in keys]
        header = _OBJECT | len(keys)
    else:
        parts = [_part(item) for item in value]
        header = _ARRAY | len(parts)
    words = struct.pack(
        f">{1 + len(parts)}I", header, *(kind << 28 | len(data) for kind, data in parts)
    )
    return words + b"".join(data for _, data in parts)


def _part(value: Any) -> tuple[int, bytes]:
    if value is None:
        return _NULL, b""
    if isinstance(value, bool):
        return (_TRUE if value else _FALSE), b""
    if isinstance(value, str):
        return _STRING, value.encode()
    if isinstance(value, dict | list):
        return _CONTAINER, _container(value)
    return _NUMBER, _number(value)


def _number(value: int | float) -> bytes:
    if isinstance(value, float) or not _LEAST <= value <= _MOST:
        if not math.isfinite(value):
            raise ValueError("a number is too large for a double")
        return struct.pack(">Bd", _FLOAT, value)
    if value == 0:
        return bytes([_ZERO])
    signed = value < 0
    bits = (-value - 1).bit_length() + 1 if signed else value.bit_length()
    width = next(w for w in _WIDTHS if bits <= 8 * w)
    kind = _SIGNED if signed else _UNSIGNED
    return bytes([kind]) + value.to_bytes(width, "big", signed=signed)


# ---- JSONB to text


def from_jsonb(values: pa.Array) -> pa.Array:
    """Decode JSONB values to JSON texts.

    Raises CorruptFileError: a value is not JSONB.
    """
    return pa.array(
        [None if data is None else text_of(data) for data in values.to_pylist()], pa.string()
    )


def text_of(data: bytes) -> str:
    """Decode one JSONB value to JSON text.

    Raises CorruptFileError: it is not JSONB.
    """
    try:
        return whole(data).text()
    except DAMAGE as error:
        raise damaged(data, error) from error


#: what reading a damaged value raises
DAMAGE = (struct.error, KeyError, ValueError, RecursionError)


def damaged(data: bytes, error: Exception) -> CorruptFileError:
    """Return the error for a value that cannot be read."""
    return CorruptFileError(f"A JSON value of {len(data)} bytes is damaged: {error}.")


class Part(NamedTuple):
    """A value within a JSONB value: its kind, and where its bytes are."""

    data: bytes
    kind: int
    at: int
    size: int

    def text(self) -> str:
        """Return the value as JSON text."""
        return _TEXTS[self.kind](self.data, self.at, self.size)

    def encoded(self) -> bytes:
        """Return the value as separate JSONB."""
        body = self.data[self.at : self.at + self.size]
        return body if self.kind == _CONTAINER else _scalar(self.kind, body)

    def items(self) -> list[Part] | None:
        """Return the items of an array; ``None`` for other values."""
        if self.kind != _CONTAINER:
            return None
        is_object, found = _parts(self.data, self.at, self.size)
        return None if is_object else [Part(self.data, *place) for place in found]

    def members(self, key: bytes | None = None) -> list[Part]:
        """Return the values of an object, or of one key; an empty list for other values."""
        data, kind, at, size = self
        is_object, found = _parts(data, at, size) if kind == _CONTAINER else (False, [])
        if not is_object:
            return []
        names, values = found[: len(found) // 2], found[len(found) // 2 :]
        return [
            Part(data, *value)
            for (_, at, size), value in zip(names, values, strict=True)
            if key is None or data[at : at + size] == key
        ]


def whole(data: bytes) -> Part:
    """Return a JSONB value as its own part."""
    (header,) = struct.unpack_from(">I", data)
    if header & _KINDS != _SCALAR:
        return Part(data, _CONTAINER, 0, len(data))
    (word,) = struct.unpack_from(">I", data, 4)
    return Part(data, word >> 28, 8, word & _LENGTH)


def _parts(data: bytes, start: int, length: int) -> tuple[bool, list[tuple[int, int, int]]]:
    """Return whether a container is an object, and the kind, start and size of each part.

    It raises ``ValueError`` if a part exceeds its bounds. Without this check, a few bytes could be
    the content of very many parts.
    """
    stop = start + length
    (header,) = struct.unpack_from(">I", data, start)
    count = header & _COUNT
    is_object = header & _KINDS == _OBJECT
    if not is_object and header & _KINDS != _ARRAY:
        raise ValueError(f"header {header:#x}")
    words = struct.unpack_from(f">{2 * count if is_object else count}I", data, start + 4)
    at = start + 4 + 4 * len(words)
    if at > stop:
        raise ValueError("it is truncated")
    found = []
    for word in words:
        size = word & _LENGTH
        if at + size > stop:
            raise ValueError("it is truncated")
        found.append((word >> 28, at, size))
        at += size
    return is_object, found


def _text(data: bytes, start: int, length: int) -> str:
    is_object, found = _parts(data, start, length)
    texts = [_TEXTS[kind](data, at, size) for kind, at, size in found]
    if is_object:
        half = len(texts) // 2
        pairs = zip(texts[:half], texts[half:], strict=True)
        return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"
    return "[" + ",".join(texts) + "]"


def _float_text(body: bytes) -> str:
    """Format a double with the fewest sufficient digits, without exponent from 1e-5 to 1e16."""
    (value,) = struct.unpack(">d", body)
    mantissa, mark, exponent = repr(value).partition("e")
    if mark and int(exponent) == _LEAST_FIXED:
        sign, digits = "-" * mantissa.startswith("-"), mantissa.lstrip("-").replace(".", "")
        return f"{sign}0.0000{digits}"
    return f"{mantissa}e{int(exponent):+d}" if mark else mantissa


#: exponent that Python writes and the reference does not
_LEAST_FIXED = -5

_NUMBERS: Mapping[int, Callable[[bytes], str]] = {
    _FLOAT: _float_text,
    _ZERO: lambda _: "0",
    # the reference writes these for numbers that exceed a double, and reads them as null
    **dict.fromkeys([_NAN, _INFINITY, _NEGATIVE_INFINITY], lambda _: "null"),
    _SIGNED: lambda body: str(int.from_bytes(body, "big", signed=True)),
    _UNSIGNED: lambda body: str(int.from_bytes(body, "big")),
}

_TEXTS: Mapping[int, Callable[[bytes, int, int], str]] = {
    _NULL: lambda _data, _at, _length: "null",
    _TRUE: lambda _data, _at, _length: "true",
    _FALSE: lambda _data, _at, _length: "false",
    _STRING: lambda data, at, length: json.dumps(
        data[at : at + length].decode(), ensure_ascii=False
    ),
    _NUMBER: lambda data, at, length: _NUMBERS[data[at]](data[at + 1 : at + length]),
    _CONTAINER: _text,
}
