"""Blob columns: their forms in a scan, and the locations of their bytes.

A dataset's schema declares blobs as bytes (legacy blobs), or as structs of bytes or an external
location (blob v2, format 2.2). A file stores descriptors. `blob_view` makes a schema that shows
blobs as descriptors or as bytes. `find_blobs` converts descriptors to locations. After an append of
2.2 files to an older table, the schema has blob v2 columns that older files store as blob v1. The
file then decides how its values are read, not the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._choice import check_choice
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR_V2, descriptor_field
from lancekit._file.reader import FileReader
from lancekit._format.arrow_parts import child_of, items_of
from lancekit._format.field_marks import BLOB, holds_blobs, is_blob, is_blob_v2
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._storage.base import RandomAccess, is_name
from lancekit._storage.places import check_trusted_file
from lancekit._versions.snapshot import FileLocation
from lancekit.errors import CorruptFileError
from lancekit.options import options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lancekit._scan.fragments.source import FragmentSource

#: the forms of blobs in a scan, by the reference's names
HANDLING = ("all_binary", "blobs_descriptions", "all_descriptions")

_INLINE, _PACKED, _DEDICATED, _EXTERNAL, _MANAGED, _MANAGED_ELSEWHERE = range(6)

#: blobs in objects below the base of their data file, and below a base that they name
MANAGED_KINDS = (_MANAGED, _MANAGED_ELSEWHERE)
#: blobs in no file of the dataset
OUTSIDE_KINDS = (_EXTERNAL, _MANAGED_ELSEWHERE)

#: position and size: the parts of a blob v1 descriptor
_V1_PARTS = 2


# ---- schemas


def blob_view(schema: LanceSchema, handling: str | None = None) -> LanceSchema:
    """Return a schema with blobs as descriptors, or as bytes if `handling` is ``all_binary``.

    Raises InvalidArgumentError: `handling` is not a known form.
    """
    if handling is not None:
        check_choice("blob_handling", handling, HANDLING, blob_handling=handling)
    change = _as_bytes if handling == "all_binary" else _as_descriptor
    fields = tuple(_changed(field, change) for field in schema.fields)
    return schema if fields == schema.fields else replace(schema, fields=fields)


def _changed(field: LanceField, change: Callable[[LanceField], LanceField]) -> LanceField:
    if holds_blobs(field.metadata):
        return change(field)
    if not field.children:
        return field
    return replace(field, children=tuple(_changed(child, change) for child in field.children))


def _as_descriptor(field: LanceField) -> LanceField:
    return descriptor_field(field) if is_blob_v2(field.metadata) else _v1_descriptor(field)


def _v1_descriptor(field: LanceField) -> LanceField:
    parts = tuple(
        LanceField(id=-1, name=name, logical_type="uint64") for name in ("position", "size")
    )
    return replace(field, logical_type="struct", metadata={BLOB: "true"}, children=parts)


def _as_bytes(field: LanceField) -> LanceField:
    if not is_blob_v2(field.metadata):
        return field
    # the children stay: they mark the field as blob v2
    metadata = {k: v for k, v in field.metadata.items() if k != "ARROW:extension:name"}
    return replace(field, logical_type="large_binary", metadata=metadata)


def _is_resolved(field: LanceField) -> bool:
    """Return True if a field shows blob v2 values, not their descriptors."""
    return is_blob_v2(field.metadata) or (
        field.logical_type == "large_binary" and bool(field.children)
    )


def has_blobs(schema: LanceSchema) -> bool:
    """Return True if a schema has blobs, in any form."""
    return any(holds_blobs(field.metadata) or _is_resolved(field) for field in schema.walk())


def stored_blobs(field: LanceField, v1: Collection[int] = ()) -> LanceField:
    """Return the field to read from a file, from which `resolve_blobs` makes ``field``.

    field: the field of the table's schema, in any form of `blob_view`.
    v1: the ids of blob v2 fields that the file stores as blob v1.
    """
    if is_stored_v2(field):
        if field.id in v1:
            return _v1_descriptor(field)
        if is_blob(field.metadata):  # the schema shows descriptors, as the file has them
            return field
        return replace(descriptor_field(field), logical_type="struct")
    if not field.children:
        return field
    children = tuple(stored_blobs(child, v1) for child in field.children)
    return field if children == field.children else replace(field, children=children)


def is_stored_v2(field: LanceField) -> bool:
    """Return True if a field shows values of a blob v2 column, in any form of `blob_view`."""
    return _is_resolved(field) or (is_blob(field.metadata) and len(field.children) > _V1_PARTS)


def resolve_blobs(
    field: LanceField, values: pa.ChunkedArray, source: FragmentSource, file_index: int
) -> pa.ChunkedArray:
    """Return the values of ``field``, converted from values of the field of `stored_blobs`."""
    kind = field.to_arrow().type
    if values.type.equals(kind):
        return values
    chunks = [_resolved(field, chunk, source, file_index) for chunk in values.chunks]
    return pa.chunked_array(chunks, kind)


def _resolved(
    field: LanceField, values: pa.Array, source: FragmentSource, file_index: int
) -> pa.Array:
    """Resolve the blobs of a field, at any depth."""
    if is_stored_v2(field):
        if field.logical_type == "large_binary":
            places = list(find_blobs(values, source, file_index))
            return pa.array(read_blobs(places), pa.large_binary())
        descriptors = _as_v2(values)
        if _is_resolved(field):
            return _logical(field, descriptors, source, file_index)
        return descriptors
    if values.type.equals(field.to_arrow().type):
        return values
    if not isinstance(values, pa.StructArray):
        return _resolved_items(field, values, source, file_index)
    parts = [
        _resolved(child, values.field(child.name), source, file_index) for child in field.children
    ]
    fields = [child.to_arrow() for child in field.children]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=pc.is_null(values))


def _as_v2(descriptors: pa.Array) -> pa.Array:
    """Return blob v1 descriptors as blob v2 descriptors of inline blobs."""
    if cast("pa.StructType", descriptors.type).num_fields > _V1_PARTS:
        return descriptors
    known = {name: child_of(descriptors, name) for name in ("position", "size")}
    count = len(descriptors)
    parts = [
        pc.cast(
            known.get(part.name, pa.repeat("" if part.name == "blob_uri" else 0, count)), part.type
        )
        for part in DESCRIPTOR_V2
    ]
    return pa.StructArray.from_arrays(
        parts, fields=list(DESCRIPTOR_V2), mask=pc.is_null(descriptors)
    )


def _resolved_items(
    field: LanceField, values: pa.Array, source: FragmentSource, file_index: int
) -> pa.Array:
    """Resolve the blobs in the items of lists."""
    kind = field.to_arrow().type
    ends = cast("pa.ListArray", values).offsets
    first, last = ends[0].as_py(), ends[-1].as_py()
    items = items_of(values).slice(first, last - first)
    (child,) = field.children
    return (pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray).from_arrays(
        pc.subtract(ends, ends[0]),
        _resolved(child, items, source, file_index),
        type=kind,
        mask=pc.is_null(values),
    )


def _logical(
    field: LanceField, descriptors: pa.Array, source: FragmentSource, file_index: int
) -> pa.Array:
    """Return blob v2 values in their written form: bytes, or an external location.

    External files are not opened: their locations are only passed on.
    """
    kind = child_of(descriptors, "kind").to_numpy(zero_copy_only=False)
    outside = (kind == _EXTERNAL) & pc.is_valid(descriptors).to_numpy(zero_copy_only=False)
    rows = descriptors.to_pylist()
    uris = [_external(row, source) if out else None for out, row in zip(outside, rows, strict=True)]
    own = [None if out else row for out, row in zip(outside, rows, strict=True)]
    inside = [_place(row, source, source.files[file_index]) if row else None for row in own]
    kinds = {child.name: child.to_arrow().type for child in field.children}
    ranged = outside & (child_of(descriptors, "size").to_numpy(zero_copy_only=False) > 0)
    parts = {
        "data": pa.array(read_blobs(inside), pa.large_binary()),
        "uri": pa.array(uris, pa.string()),
        "position": _where(ranged, child_of(descriptors, "position")),
        "size": _where(ranged, child_of(descriptors, "size")),
    }
    if ranged.any() and "size" not in kinds:
        raise CorruptFileError(
            f"Column {field.name!r} has ranges of external files, but no fields for them.",
            column=field.name,
        )
    fields = [child.to_arrow() for child in field.children]
    return pa.StructArray.from_arrays(
        [parts[f.name] for f in fields], fields=fields, mask=pc.is_null(descriptors)
    )


def _where(wanted: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    return pa.array(values.to_numpy(zero_copy_only=False), values.type, mask=~wanted)


# ---- places


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """The location of a blob's bytes; a size of ``None`` is the whole file.

    `inline` blobs are in a data file, which may have checksums.
    """

    location: FileLocation
    position: int
    size: int | None
    inline: bool = False

    def open(self) -> RandomAccess:
        """Open the file; ``UntrustedBaseError`` if a link in its place leads elsewhere."""
        if not self.inline:
            check_trusted_file(str(self.location), self.location.store)
        try:
            opened = self.location.store.open(self.location.name, self.location.size)
        except FileNotFoundError as error:
            raise CorruptFileError(
                f"The bytes of a blob are missing: {self.location} does not exist.",
                hint="The file was moved or removed. The dataset stores only its location.",
                file=str(self.location),
            ) from error
        if self.inline and options.verify_checksums:
            return FileReader.open(opened).blob_source
        return opened

    def count(self) -> int:
        """Return the number of bytes; opens the file if the size is unknown."""
        return self.open().size() if self.size is None else self.size


def read_blobs(places: Sequence[BlobPlace | None]) -> list[bytes | None]:
    """Return the bytes of blobs; blobs in one file are read together."""
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
    """Yield the location of each descriptor of one data file, ``None`` where it is null.

    Raises UntrustedBaseError: a descriptor points to an external location that is not trusted.
    Raises CorruptFileError: a descriptor is of an unknown kind.
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
    """Return the location of the blob that a descriptor names."""
    kind, position, size = row["kind"], row["position"], row["size"]
    if kind == _INLINE:
        return BlobPlace(file, position, size, inline=True)
    if kind in (_PACKED, _DEDICATED):
        # the id in binary, the lowest bit first
        digits = f"{row['blob_id']:032b}"[::-1]
        location = FileLocation(file.store, f"{file.name.removesuffix('.lance')}/{digits}.blob")
        return BlobPlace(location, position, size)
    if kind == _EXTERNAL:
        return BlobPlace(_outside(_external(row, source), source), position, size or None)
    if kind == _MANAGED and row["blob_id"] == 0:
        # the store is the base of the data file: its blobs stay below it wherever its rows move
        return BlobPlace(FileLocation(file.store, _managed_name(row, file)), position, size)
    if kind == _MANAGED_ELSEWHERE:
        base = source.location.base(_base_path(row, source))
        return BlobPlace(FileLocation(base, _managed_name(row, file)), position, size)
    raise CorruptFileError(
        f"{file} has a blob of unknown kind {kind} with id {row['blob_id']}.", file=str(file)
    )


def _managed_name(row: dict[str, object], file: FileLocation) -> str:
    """Return the path of a managed blob's object below its base."""
    name = str(row["blob_uri"])
    if not is_name(name):
        raise CorruptFileError(
            f"{file} refers to a blob in {name!r}, which is not a path below the dataset.",
            hint="The file is damaged, or was crafted to read other files.",
            file=str(file),
        )
    return name


def _outside(uri: str, source: FragmentSource) -> FileLocation:
    folder, slash, name = uri.rpartition("/")
    try:
        check_trusted_file(uri, source.location.root)
        store = source.location.base(folder or slash or ".")
    except ValueError as error:  # from lancekit, or from Python for a path with a NUL
        raise CorruptFileError(
            f"{source.where} has a blob with an invalid location {uri!r}: {error}", uri=uri
        ) from error
    return FileLocation(store, unquote(name) if "://" in uri else name)


def _external(row: dict[str, object], source: FragmentSource) -> str:
    """Return the location of an external blob: a path below a base path, or a URI."""
    uri = str(row["blob_uri"])
    return f"{_base_path(row, source).rstrip('/')}/{uri}" if row["blob_id"] else uri


def _base_path(row: dict[str, object], source: FragmentSource) -> str:
    base_id = row["blob_id"]
    paths = {base.id: base.path for base in source.base_paths}
    if base_id not in paths:
        raise CorruptFileError(
            f"{source.where} has a blob in base path {base_id}, which is not listed.",
            base_id=base_id,
        )
    return paths[base_id]
