"""Codecs between the fields of a dataclass and the fields of a protobuf message.

A `Part` is a frozen dataclass whose fields declare their codecs.  Encoding, decoding and checking
are one loop each, and no message needs separate code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from operator import index, is_
from typing import Any, TypeVar
from uuid import UUID

import pyarrow as pa
from google.protobuf.message import Message
from pyroaring import BitMap

from lancekit._checked import is_whole
from lancekit._format.items import Items, Numbers
from lancekit._format.schema import LanceSchema, schema_from_pb, schema_to_pb
from lancekit._format.unknown_fields import put_unknown, take_unknown
from lancekit._legible import shown
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError, type_name

P = TypeVar("P", bound="Part")
K = TypeVar("K")
T = TypeVar("T")
M = TypeVar("M", bound="Message")


@dataclass(frozen=True, slots=True)
class Codec:
    """Functions that read a value from a message, write it, and convert a caller's value.

    `accept` takes the value, and its name for errors.
    """

    get: Callable[[Message, str], object]
    put: Callable[[Message, str, Any], None]
    accept: Callable[[object, str], object]


def wire(codec: Codec, *, name: str = "", **kwargs: Any) -> Any:
    """Declare a dataclass field with a codec; ``name`` is the message's field, if it differs."""
    return field(metadata=codec_metadata(codec, name), **kwargs)


def codec_metadata(codec: Codec, name: str = "") -> dict[str, object]:
    """Return the metadata of a dataclass field that has a codec."""
    return {"codec": codec, "name": name}


def _list_codecs(kind: type[Part]) -> tuple[tuple[str, str, Codec], ...]:
    return tuple(
        (f.name, f.metadata["name"] or f.name, f.metadata["codec"])
        for f in fields(kind)
        if "codec" in f.metadata
    )


_codecs_of: Callable[[object], tuple[tuple[str, str, Codec], ...]] = cache(_list_codecs)


@dataclass(frozen=True, slots=True)
class Part:
    """Protobuf message as a dataclass; `unknown` keeps the fields of newer releases."""

    unknown: bytes = field(default=b"", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        # callers pass lists, NumPy integers and Arrow schemas: convert each to one type
        for name, _, codec in _codecs_of(type(self)):
            given = getattr(self, name)
            value = codec.accept(given, f"{type(self).__name__}.{name}")
            if value is not given:
                object.__setattr__(self, name, value)


def values_of(kind: type[Part], message: Message) -> dict[str, Any]:
    """Return the constructor arguments of the dataclass for a message."""
    values = {name: codec.get(message, there) for name, there, codec in _codecs_of(kind)}
    return {**values, "unknown": take_unknown(message)}


def decode(kind: type[P], message: Message) -> P:
    """Decode a message to its dataclass."""
    return kind(**values_of(kind, message))


def encode(part: Part, message: Message) -> None:
    """Encode a dataclass into a message."""
    message.SetInParent()  # an operation without content is still an operation
    for name, there, codec in _codecs_of(type(part)):
        codec.put(message, there, getattr(part, name))
    put_unknown(message, part.unknown)


# ---- checks and conversion of callers' values


def wrong_type(value: object, what: str, expected: str) -> InvalidTypeError:
    """Return the error for a value of a wrong type."""
    return InvalidTypeError(
        f"{what} must be {expected}, got {shown(value)} of type {type_name(value)}.", value=value
    )


def _one(kind: type[T], expected: str) -> Callable[[object, str], T]:
    def accept(value: object, what: str) -> T:
        if not isinstance(value, kind):
            raise wrong_type(value, what, expected)
        return value

    return accept


def _integer(bits: int, signed: bool = False) -> Callable[[object, str], int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)

    def accept(value: Any, what: str) -> int:
        if not is_whole(value):
            raise wrong_type(value, what, "an integer")
        number = index(value)
        if not low <= number < high:
            raise InvalidArgumentError(
                f"{what} must be from {low} to {high - 1}, got {number}.", value=number
            )
        return number

    return accept


def _optional(accept: Callable[[object, str], T]) -> Callable[[object, str], T | None]:
    return lambda value, what: None if value is None else accept(value, what)


def _every(accept: Callable[[object, str], T]) -> Callable[[object, str], tuple[T, ...]]:
    def accept_all(values: Any, what: str) -> tuple[T, ...]:
        # frequent types first: `isinstance` with Mapping asks all its subclasses
        usual = isinstance(values, list | tuple)
        if not usual and (
            isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__")
        ):
            raise wrong_type(values, what, "a list")
        whole = values if isinstance(values, Items) else Items(values)
        items = Items(accept(value, f"every item of {what}") for value in whole)
        return whole if all(map(is_, whole, items)) else items

    return accept_all


def _mapping(
    key: Callable[[object, str], K], value: Callable[[object, str], T]
) -> Callable[[object, str], dict[K, T]]:
    def accept(items: object, what: str) -> dict[K, T]:
        if items is None:
            return {}
        if not isinstance(items, Mapping):
            raise wrong_type(items, what, "a mapping")
        return {
            key(k, f"every key of {what}"): value(v, f"{what}[{k!r}]") for k, v in items.items()
        }

    return accept


def _schema(value: object, what: str) -> LanceSchema:
    if isinstance(value, pa.Schema):
        return LanceSchema.from_arrow(value)
    value = getattr(value, "__lance_schema__", value)  # the public schema object wraps it
    return _one(LanceSchema, "a schema")(value, what)


def _uuid(value: Any, what: str) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise wrong_type(value, what, "a UUID") from None


def _bitmap(value: object, what: str) -> BitMap:
    if isinstance(value, Numbers):
        return value
    return Numbers(value if isinstance(value, BitMap) else _every(_integer(32))(value, what))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, what, "text")
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{what} is not valid Unicode: {shown(value)} has an unpaired surrogate.",
            hint="Decode its bytes with errors='replace'.",
            value=value,
        ) from None
    return value


_data = _one(bytes, "bytes")


# ---- single values


def _get_optional(message: Message, name: str) -> object:
    return getattr(message, name) if message.HasField(name) else None


def _put_optional(message: object, name: str, value: object) -> None:
    if value is not None:
        setattr(message, name, value)


def _get_uuid(message: object, name: str) -> UUID:
    stored = getattr(message, name).uuid
    if len(stored) not in (0, 16):
        raise CorruptFileError(f"A UUID must have 16 bytes, got {len(stored)}.", uuid=stored)
    return UUID(bytes=stored or bytes(16))


def _put_uuid(message: object, name: str, value: UUID) -> None:
    getattr(message, name).uuid = value.bytes


def parse_bitmap(stored: bytes) -> BitMap:
    """Parse a serialised set of numbers; raise ``CorruptFileError`` if it is damaged."""
    try:
        return BitMap.deserialize(stored)
    except ValueError as error:
        raise CorruptFileError(f"A bitmap is damaged: {error}.") from error


def _get_bitmap(message: object, name: str) -> BitMap | None:
    stored = getattr(message, name)
    # unoptimised, so that encoding returns the same bytes
    return Numbers(parse_bitmap(stored), optimize=False) if stored else None


def _put_bitmap(message: object, name: str, value: BitMap | None) -> None:
    if value is not None:
        setattr(message, name, bytes(value.serialize()))


def _get_schema(message: object, name: str) -> LanceSchema:
    return schema_from_pb(getattr(message, name), getattr(message, "schema_metadata", None))


def _put_schema(message: object, name: str, schema: LanceSchema) -> None:
    getattr(message, name).extend(schema_to_pb(schema))
    if hasattr(message, "schema_metadata"):
        message.schema_metadata.update({k: v.encode() for k, v in schema.metadata.items()})


def whole(bits: int = 64) -> Codec:
    """Return the codec of an unsigned integer."""
    return Codec(getattr, setattr, _integer(bits))


def maybe_whole(bits: int = 64, *, signed: bool = False) -> Codec:
    """Return the codec of an optional integer."""
    return Codec(_get_optional, _put_optional, _optional(_integer(bits, signed)))


def nonzero_whole(bits: int) -> Codec:
    """Return the codec of an unsigned integer that is ``None`` if it is zero."""
    return Codec(
        lambda message, name: getattr(message, name) or None,
        _put_optional,
        _optional(_integer(bits)),
    )


BOOL = Codec(getattr, setattr, _one(bool, "True or False"))
MAYBE_BOOL = Codec(_get_optional, _put_optional, _optional(_one(bool, "True, False or None")))
DATA = Codec(getattr, setattr, _one(bytes, "bytes"))
TEXT = Codec(getattr, setattr, _text)
MAYBE_TEXT = Codec(_get_optional, _put_optional, _optional(_text))
UUIDS = Codec(_get_uuid, _put_uuid, _uuid)
MAYBE_BITMAP = Codec(_get_bitmap, _put_bitmap, _optional(_bitmap))
SCHEMA = Codec(_get_schema, _put_schema, _schema)


def part(kind: type[P]) -> Codec:
    """Return the codec of an optional message."""
    return Codec(
        lambda message, name: (
            decode(kind, getattr(message, name)) if message.HasField(name) else None
        ),
        lambda message, name, value: (
            None if value is None else encode(value, getattr(message, name))
        ),
        _optional(_one(kind, f"a {kind.__name__}")),
    )


# ---- many values


def _put_many(message: object, name: str, values: object) -> None:
    getattr(message, name).extend(values)


def _get_many(message: object, name: str) -> tuple[object, ...]:
    return Items(getattr(message, name))


def wholes(bits: int = 64, *, signed: bool = False) -> Codec:
    """Return the codec of a list of integers."""
    return Codec(_get_many, _put_many, _every(_integer(bits, signed)))


TEXTS = Codec(_get_many, _put_many, _every(_text))


def messages(
    kind: type[T],
    from_pb: Callable[[M], T],
    to_pb: Callable[[T], M],
    expected: str,
    numbers: tuple[str, ...] = (),
) -> Codec:
    """Return the codec of a list of messages with conversion functions of their own.

    ``numbers`` are attributes to check for whole numbers, which their constructors do not check.
    """
    accept, number = _one(kind, expected), _integer(64)

    def accept_one(value: object, what: str) -> T:
        accepted = accept(value, what)
        for name in numbers:
            number(getattr(value, name), f"{name} of {what}")
        return accepted

    return Codec(
        lambda message, name: Items(map(from_pb, getattr(message, name))),
        lambda message, name, values: getattr(message, name).extend(map(to_pb, values)),
        _every(accept_one),
    )


def one_message(
    kind: type[T], from_pb: Callable[[M], T], to_pb: Callable[[T], M], expected: str
) -> Codec:
    """Return the codec of one message with its own conversion functions."""
    return Codec(
        lambda message, name: from_pb(getattr(message, name)),
        lambda message, name, value: getattr(message, name).CopyFrom(to_pb(value)),
        _one(kind, expected),
    )


def parts(kind: type[P]) -> Codec:
    """Return the codec of a list of parts."""

    def put(message: object, name: str, values: tuple[P, ...]) -> None:
        for value in values:
            encode(value, getattr(message, name).add())

    return Codec(
        lambda message, name: Items(decode(kind, m) for m in getattr(message, name)),
        put,
        _every(_one(kind, f"a {kind.__name__}")),
    )


# ---- maps


def _put_map(message: object, name: str, values: Mapping[object, object]) -> None:
    getattr(message, name).update(values)


def _get_map(message: object, name: str) -> dict[object, object]:
    return dict(getattr(message, name))


mapping_of_numbers = _mapping(_integer(64), _every(_integer(32)))
TEXT_MAP = Codec(_get_map, _put_map, _mapping(_text, _text))
BYTES_BY_ID = Codec(_get_map, _put_map, _mapping(_integer(64), _data))


def parts_by_id(kind: type[P], *, bits: int, signed: bool = False) -> Codec:
    """Return the codec of a map from a number to a part."""

    def put(message: object, name: str, values: Mapping[int, P]) -> None:
        for key, value in values.items():
            encode(value, getattr(message, name)[key])

    return Codec(
        lambda message, name: {k: decode(kind, m) for k, m in getattr(message, name).items()},
        put,
        _mapping(_integer(bits, signed), _one(kind, f"a {kind.__name__}")),
    )


def _get_entries(message: object, name: str) -> dict[str, str | None]:
    return {e.key: e.value if e.HasField("value") else None for e in getattr(message, name)}


def _put_entries(message: object, name: str, entries: Mapping[str, str | None]) -> None:
    for key, value in entries.items():
        getattr(message, name).add(key=key, value=value)


#: a map in which a value of ``None`` deletes the key
ENTRIES = Codec(_get_entries, _put_entries, _mapping(_text, _optional(_text)))
