"""Dictionary values in manifests of 0.1 tables; later tables keep them in data files.

See docs/format/table.md, 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lancekit._format.logical_types import arrow_type
from lancekit._format.pb import schema_pb2 as pb
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

_STRINGS = frozenset({"string", "large_string", "binary", "large_binary"})


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Values of a dictionary: their bytes and, for strings, offsets into these as ``<i8``."""

    length: int
    data: bytes
    offsets: bytes | None = None


def read_dictionaries(
    fields: Iterable[pb.Field], whole: Callable[[], memoryview], where: str
) -> dict[int, StoredValues]:
    """Return the values of all dictionaries of a manifest, by the ids of their fields.

    fields: the messages of the fields.
    whole: returns all bytes of the manifest's file; called only if there is a dictionary.

    Raises CorruptFileError: the values are outside of the file.
    """
    found = {}
    for field in fields:
        kind = _value_type(field.logical_type)
        if kind is not None:
            try:
                found[field.id] = _read(kind, field.dictionary, whole())
            except ValueError as error:
                raise CorruptFileError(
                    f"The values of dictionary {field.name!r} are outside of manifest {where}.",
                    hint="The file is damaged; open an earlier version.",
                    field=field.name,
                    file=where,
                ) from error
    return found


def put_dictionaries(
    out: bytearray, fields: Iterable[pb.Field], values: Mapping[int, StoredValues]
) -> None:
    """Append the values of all dictionaries to `out`, and set their positions in the fields.

    Raises UnsupportedFeatureError: the values of a dictionary are not known.
    """
    for field in fields:
        if _value_type(field.logical_type) is None:
            continue
        stored = values.get(field.id)
        if stored is None:
            raise UnsupportedFeatureError(
                f"The values of dictionary {field.name!r} are unknown: a table of format 0.1 has "
                "them in its manifest.",
                hint='Rewrite the rows in a newer format: write_dataset(..., mode="overwrite", '
                'data_storage_version="2.1").',
                column=field.name,
            )
        first = len(out)
        out += stored.data
        field.dictionary.offset, field.dictionary.length = first, stored.length
        if stored.offsets is not None:
            field.dictionary.offset = len(out)
            out += (np.frombuffer(stored.offsets, "<i8") + first).tobytes()


def _value_type(logical: str) -> str | None:
    """Return the logical type of a dictionary's values, ``None`` for other types."""
    head, _, rest = logical.partition(":")
    return rest.rsplit(":", 2)[0] if head == "dict" else None


def _read(kind: str, place: pb.Dictionary, whole: memoryview) -> StoredValues:
    offset, length = int(place.offset), int(place.length)
    if kind not in _STRINGS:
        width = arrow_type(kind).bit_width // 8
        return StoredValues(length, _slice(whole, offset, offset + width * length))
    if length < 0:
        raise ValueError(length)
    borders = np.frombuffer(_slice(whole, offset, offset + 8 * (length + 1)), "<i8")
    if (borders[1:] < borders[:-1]).any():
        raise ValueError(borders)
    first, last = int(borders[0]), int(borders[-1])
    return StoredValues(length, _slice(whole, first, last), (borders - first).tobytes())


def _slice(whole: memoryview, start: int, stop: int) -> bytes:
    if not 0 <= start <= stop <= len(whole):
        raise ValueError(start, stop)
    return bytes(whole[start:stop])
