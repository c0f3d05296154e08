"""Unknown protobuf fields: carried as bytes, so that a newer writer's fields survive a rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lancekit.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Buffer

M = TypeVar("M", bound=Message)


def parse(kind: type[M], data: Buffer, what: str) -> M:
    """Parse one message; ``CorruptFileError`` naming ``what`` if the bytes are not one."""
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
    """Return what a dataclass cannot hold, still encoded.

    That is the fields of ``message`` itself that its class does not know, and the known ones
    named in ``unmodelled``.
    """
    # asked of each field of a wide table
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
    """Put back what `take_unknown` returned."""
    if unknown:
        message.MergeFromString(unknown)
