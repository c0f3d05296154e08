"""Blob columns: what a scan shows of them, and where their bytes are.

A dataset's schema says that values are bytes (legacy blobs) or structs of bytes and places
elsewhere (those of 2.2).  A file stores descriptors.  `blob_view` makes a schema in which blobs
are one or the other; `find_blobs` makes places of descriptors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from lancekit.commit.snapshot import FileLocation
from lancekit.errors import CorruptFileError, InvalidArgumentError
from lancekit.file import FileReader
from lancekit.file.blobs import descriptor_field, is_blob, is_blob_v2
from lancekit.format.marks import BLOB
from lancekit.format.schema import LanceField, LanceSchema
from lancekit.options import options
from lancekit.storage.base import RandomAccess

if TYPE_CHECKING:
    from lancekit.scan.sources import FragmentSource

__all__ = [
    "HANDLING",
    "BlobPlace",
    "blob_view",
    "find_blobs",
    "holds_blobs",
    "read_blobs",
    "resolve_blobs",
    "stored_blobs",
]

#: how a scan may show blobs, in the reference's words
HANDLING = ("all_binary", "blobs_descriptions", "all_descriptions")

_INLINE, _PACKED, _DEDICATED, _EXTERNAL = range(4)


# ---- schemas


def blob_view(schema: LanceSchema, handling: str | None = None) -> LanceSchema:
    """Return a schema with blobs as descriptors, or as bytes.

    Raises
    ------
    InvalidArgumentError
        There is no such way to show them.
    """
    if handling not in (None, *HANDLING):
        raise InvalidArgumentError(
            f"blob_handling is {handling!r}.",
            hint="Choose " + ", ".join(map(repr, HANDLING)) + ".",
            blob_handling=handling,
        )
    change = _as_bytes if handling == "all_binary" else _as_descriptor
    fields = tuple(_changed(field, change) for field in schema.fields)
    return schema if fields == schema.fields else replace(schema, fields=fields)


def _changed(field: LanceField, change: Any) -> LanceField:
    if is_blob(field):
        changed: LanceField = change(field)
        return changed
    if field.logical_type != "struct":
        return field
    return replace(field, children=tuple(_changed(child, change) for child in field.children))


def _as_descriptor(field: LanceField) -> LanceField:
    if is_blob_v2(field):
        return descriptor_field(field)
    parts = tuple(
        LanceField(id=-1, name=name, logical_type="uint64") for name in ("position", "size")
    )
    return replace(field, logical_type="struct", metadata={BLOB: "true"}, children=parts)


def _as_bytes(field: LanceField) -> LanceField:
    if not is_blob_v2(field):
        return field
    # the children stay, by which the two kinds are told apart
    metadata = {k: v for k, v in field.metadata.items() if k != "ARROW:extension:name"}
    return replace(field, logical_type="large_binary", metadata=metadata)


def _is_resolved(field: LanceField) -> bool:
    """Tell whether a field asks for what the descriptors of 2.2 stand for."""
    return is_blob_v2(field) or (field.logical_type == "large_binary" and bool(field.children))


def holds_blobs(schema: LanceSchema) -> bool:
    """Tell whether there are blobs in a schema, in whichever form it shows them."""
    return any(is_blob(field) or _is_resolved(field) for field in schema.walk())


def stored_blobs(field: LanceField) -> LanceField:
    """Return the field to read from a file in order to make ``field``."""
    if _is_resolved(field):
        return replace(descriptor_field(field), logical_type="struct")
    if field.logical_type != "struct":
        return field
    return replace(field, children=tuple(map(stored_blobs, field.children)))


def resolve_blobs(
    field: LanceField, values: pa.ChunkedArray, source: FragmentSource, file_index: int
) -> pa.ChunkedArray:
    """Return what ``field`` asks for, made of what `stored_blobs` says to read."""
    if field == stored_blobs(field):
        return values
    chunks = [_resolved(field, chunk, source, file_index) for chunk in values.chunks]
    return pa.chunked_array(chunks, field.to_arrow().type)


def _resolved(
    field: LanceField, values: pa.Array, source: FragmentSource, file_index: int
) -> pa.Array:
    if _is_resolved(field):
        places = list(find_blobs(values, source, file_index))
        if field.logical_type == "large_binary":
            return pa.array(read_blobs(places), pa.large_binary())
        return _logical(field, values, places)
    if field == stored_blobs(field):
        return values
    parts = [
        _resolved(child, values.field(child.name), source, file_index) for child in field.children
    ]
    fields = [child.to_arrow() for child in field.children]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())


def _logical(
    field: LanceField, descriptors: pa.Array, places: Sequence[BlobPlace | None]
) -> pa.Array:
    """Return blobs as they are written: bytes, or a place outside of the dataset."""
    outside = (descriptors.field("kind").to_numpy(zero_copy_only=False) == _EXTERNAL) & np.array(
        [place is not None for place in places], bool
    )
    inside = [None if out else place for out, place in zip(outside, places, strict=True)]
    kinds = {child.name: child.to_arrow().type for child in field.children}
    ranged = outside & (descriptors.field("size").to_numpy(zero_copy_only=False) > 0)
    parts = {
        "data": pa.array(read_blobs(inside), pa.large_binary()),
        "uri": pa.array(
            [place.uri if place and place.uri else None for place in places],
            pa.string(),
        ),
        "position": _where(ranged, descriptors.field("position")),
        "size": _where(ranged, descriptors.field("size")),
    }
    if ranged.any() and "size" not in kinds:
        raise CorruptFileError(
            f"Column {field.name!r} holds parts of external files, which its schema cannot name.",
            column=field.name,
        )
    fields = [child.to_arrow() for child in field.children]
    return pa.StructArray.from_arrays(
        [parts[f.name] for f in fields], fields=fields, mask=descriptors.is_null()
    )


def _where(wanted: Any, values: pa.Array) -> pa.Array:
    return pa.array(values.to_numpy(zero_copy_only=False), values.type, mask=~wanted)


# ---- places


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Where the bytes of a blob are; a size of ``None`` is all of the file.

    `inline` blobs are in a data file, which may have checksums.
    """

    location: FileLocation
    position: int
    size: int | None
    uri: str = ""
    inline: bool = False

    def open(self) -> RandomAccess:
        """Open the file."""
        try:
            opened = self.location.store.open(self.location.name, self.location.size)
        except FileNotFoundError as error:
            raise CorruptFileError(
                f"A blob's bytes should be in {self.location}, which does not exist.",
                hint="It was moved or removed; the dataset only says where it was.",
                file=str(self.location),
            ) from error
        if self.inline and options.verify_checksums:
            return FileReader.open(opened).blob_source
        return opened

    def count(self) -> int:
        """Return the number of bytes; the file is asked if nothing else says it."""
        return self.open().size() if self.size is None else self.size


def read_blobs(places: Sequence[BlobPlace | None]) -> list[bytes | None]:
    """Return the bytes at places; what lies in one file is read together."""
    found: list[bytes | None] = [None if place is None else b"" for place in places]
    by_file: dict[tuple[str, str], list[int]] = {}
    for at, place in enumerate(places):
        if place is not None and place.size != 0:
            key = (place.location.store.uri, place.location.name)
            by_file.setdefault(key, []).append(at)
    for group in by_file.values():
        wanted = [place for at in group if (place := places[at]) is not None]
        opened = wanted[0].open()
        parts = opened.read_many([(place.position, place.count()) for place in wanted])
        for at, part in zip(group, parts, strict=True):
            found[at] = bytes(part)
    return found


def find_blobs(
    descriptors: pa.Array, source: FragmentSource, file_index: int
) -> Iterator[BlobPlace | None]:
    """Yield the place of each descriptor of one data file, ``None`` where it is null.

    Raises
    ------
    UntrustedBaseError
        A descriptor points into another store, which is not trusted.
    CorruptFileError
        A descriptor of an unknown kind.
    """
    file = source.files[file_index]
    rows = descriptors.to_pylist()
    for row in rows:
        if row is None:
            yield None
        elif "kind" not in row:
            yield BlobPlace(file, row["position"], row["size"], inline=True)
        else:
            yield _place(row, source, file)


def _place(row: dict[str, Any], source: FragmentSource, file: FileLocation) -> BlobPlace:
    kind, position, size = row["kind"], row["position"], row["size"]
    if kind == _INLINE:
        return BlobPlace(file, position, size, inline=True)
    if kind in (_PACKED, _DEDICATED):
        # the id in binary, the lowest bit first
        digits = f"{row['blob_id']:032b}"[::-1]
        location = FileLocation(file.store, f"{file.name.removesuffix('.lance')}/{digits}.blob")
        return BlobPlace(location, position, size)
    if kind == _EXTERNAL:
        location, uri = _external(row["blob_uri"], row["blob_id"], source)
        return BlobPlace(location, position, size or None, uri)
    raise CorruptFileError(
        f"{file} describes a blob of kind {kind}, which is not known.", file=str(file)
    )


def _external(uri: str, base_id: int, source: FragmentSource) -> tuple[FileLocation, str]:
    """Return the place of an external blob: below a base path, or at a URI of its own."""
    if base_id:
        paths = {base.id: base.path for base in source.base_paths}
        if base_id not in paths:
            raise CorruptFileError(
                f"{source.where} has a blob in base path {base_id}, which is not listed.",
                base_id=base_id,
            )
        uri = f"{paths[base_id].rstrip('/')}/{uri}"
    folder, _, name = uri.rpartition("/")
    store = source.line.base(folder)
    return FileLocation(store, unquote(name) if "://" in uri else name), uri
