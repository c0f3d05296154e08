"""Unknown protobuf fields: kept as bytes, so that a newer writer's fields survive a rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lancekit.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Buffer

M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: Buffer, what: str) -> M:
    """Parse a message; raise ``CorruptFileError`` that names ``what`` if the bytes are damaged."""
    message = kind()
    try:
        message.ParseFromString(bytes(data))
    except DecodeError as error:
        raise CorruptFileError(
            f"{what} is damaged: {error}.",
            hint="Restore the file from a copy, or open an earlier version.",
            file=what,
        ) from error
    return message


def take_unknown(message: Message, unmodelled: tuple[str, ...] = ()) -> bytes:
    """Return the fields that a dataclass does not have, encoded.

    These are the unknown fields of ``message`` itself, and the known fields named in
    ``unmodelled``.
    """
    # fast path, called for each field of a wide table
    if not (
        len(UnknownFieldSet(message)) or (unmodelled and any(map(message.HasField, unmodelled)))
    ):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor, _ in message.ListFields():
        if descriptor.name not in unmodelled:
            rest.ClearField(descriptor.name)
    return rest.SerializeToString()


def put_unknown(message: Message, unknown: bytes) -> None:
    """Restore the fields that `take_unknown` returned."""
    if unknown:
        message.MergeFromString(unknown)
