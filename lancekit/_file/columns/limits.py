"""Checks before writing: values and types that a version of the format cannot store.

The limits are the readers': a file that no reader could read is refused.

See docs/format/data-files.md, 4 and 16.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.columns.split_leaves import is_whole
from lancekit._file.kernels.arrow_buffers import byte_width, is_variable, string_buffers
from lancekit._file.kernels.values import is_text
from lancekit._format.arrow_parts import child_of, flattened, item_field, items_of
from lancekit._format.field_marks import (
    COMPRESSION_LEVEL,
    holds_blobs,
    is_blob_v2,
    level,
    unclear_packing,
    unknown_choices,
)
from lancekit._format.logical_types import may_be_category
from lancekit._format.paths import show_path
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, UnsupportedTypeError

#: Maximum booleans in a row: 8 such rows fit into a chunk of 2.1.
_MAX_BOOLEANS = 8192

#: Maximum bytes of a packed struct: 8 such rows fit into a chunk of 2.1.
_MAX_PACKED = 4080

_NEWER = "Use data_storage_version 2.2, or another type."


def check_field(field: LanceField, version: str) -> None:
    """Raise unless a version can store the columns of a field.

    Unknown requests for an encoding are ignored: a table that has them can still be written.

    Raises UnsupportedTypeError: no reader could read the column.
    Raises InvalidArgumentError: readers disagree whether a struct is packed.
    """
    if version != "2.0":  # readers of 2.0 treat every struct with a mark as packed
        _check_packing(field, (field.name,))
    for problem, hint in _problems(field, version, ()):
        raise UnsupportedTypeError(
            f"Column {field.name!r}: {problem} cannot be written to files of version {version}.",
            hint=hint,
            column=field.name,
            type=str(field.to_arrow().type),
            version=version,
        )


def _check_packing(field: LanceField, path: tuple[str, ...] | None) -> None:
    """Raise if releases of the reference disagree whether a struct is packed.

    Children of lists have ``None`` as ``path``; messages show their field id.
    """
    is_struct = field.logical_type == "struct"
    unclear = unclear_packing(field.metadata)
    if is_struct and unclear is not None:
        key, value = unclear
        place = field.id if path is None else show_path(path)
        packed, plain = (
            f"ds.update_field_metadata({ {place: {key: mark}} })" for mark in ("true", None)
        )
        raise _refused_mark(
            field,
            key,
            value,
            "means packed to some releases of the reference, and nothing to others",
            "Write 'true', or leave out the mark. If a dataset has this mark, its files decide: "
            f"{packed} or {plain}; the wrong one is refused.",
        )
    for child in field.children:
        _check_packing(child, (*path, child.name) if is_struct and path else None)


def check_new_marks(schema: LanceSchema) -> None:
    """Raise ``InvalidArgumentError`` if encoding requests of new columns have unknown values."""
    for part in schema.walk():
        for key, value, choice in unknown_choices(part.metadata):
            hint = f"Choose {', '.join(choice.values)}, or leave out the mark."
            raise _refused_mark(part, key, value, "is unknown", hint)
        number = part.metadata.get(COMPRESSION_LEVEL, "0")
        if level(number) is None:
            hint = "Levels are numbers."
            raise _refused_mark(part, COMPRESSION_LEVEL, number, "is unknown", hint)
    for field in schema.fields:
        _check_packing(field, (field.name,))


def _refused_mark(
    field: LanceField, key: str, value: str, problem: str, hint: str
) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Column {field.name!r} has {key}={shown(value)}, which {problem}.",
        hint=hint,
        column=field.name,
    )


def _problems(field: LanceField, version: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (problem, hint) for a field whose list and vector parents are ``above``."""
    logical = field.logical_type
    kind = field.to_arrow().type
    if holds_blobs(field.metadata):
        yield from _blob_problems(field, version, above)
        return
    if is_whole(field):
        yield from _packed_problems(field, version)
        return
    new = logical == "map" or logical.startswith("fixed_size_list:struct:")
    if new and version != "2.2":
        yield str(kind), _NEWER
    if logical.startswith("fixed_size_list:struct:"):
        if "list" in above:
            yield "fixed-size lists of structs inside of lists", "Use lists of lists."
    elif logical == "struct" and not field.children:
        if "list" in above:
            yield "structs without fields inside of lists", "Add a field."
    elif not field.children:
        yield from _leaf_problems(kind, version)
    here = "vector" if logical.startswith("fixed_size_list:") else "list"
    if here == "list" and logical != "struct" and field.children and "vector" in above:
        yield "lists inside of fixed-size lists of structs", "Use a list instead of a fixed size."
    for child in field.children:
        yield from _problems(child, version, above if logical == "struct" else (*above, here))


def _leaf_problems(kind: pa.DataType, version: str) -> Iterator[tuple[str, str]]:
    if pa.types.is_dictionary(kind) and not may_be_category(kind.value_type):
        yield f"dictionaries of {kind.value_type}", f"Cast the column to {kind.value_type}."
    count, vector = 1, pa.types.is_fixed_size_list(kind)
    while pa.types.is_fixed_size_list(kind):
        count *= kind.list_size
        kind = kind.value_type
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
    if count == 0:
        yield "fixed-size lists without items", "Use lists."
    if vector and version != "2.0" and (pa.types.is_null(kind) or is_variable(kind)):
        # the reference makes such columns, and stores only nulls in them
        yield f"fixed-size lists of {kind}", "Drop the column."
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 0:
        yield str(kind), "Use binary."
    if pa.types.is_boolean(kind) and count > _MAX_BOOLEANS and version == "2.1":
        yield f"lists of {count} booleans", "Use data_storage_version 2.2, or bytes."


def _blob_problems(
    field: LanceField, version: str, above: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    if is_blob_v2(field.metadata):
        if version != "2.2":
            yield "blobs of version 2", "Use data_storage_version 2.2, or legacy blobs."
    elif field.logical_type != "large_binary":
        yield f"blobs of type {field.logical_type}", "Blobs are large_binary."
    if above and version != "2.0":
        yield "blobs inside of lists", "Leave out the mark of the blob."


def _packed_problems(field: LanceField, version: str) -> Iterator[tuple[str, str]]:
    if not field.children:
        yield "packed structs without fields", "Add a field, or leave out the mark."
    size = 0
    for child in field.children:
        kind = child.to_arrow().type
        vector = pa.types.is_fixed_size_list(kind)
        item = item_field(kind).type if vector else kind
        if (is_variable(kind) and version != "2.2") or (vector and version == "2.1"):
            yield f"packed structs with {kind}", _NEWER
        elif not is_variable(kind) and byte_width(item) is None:
            yield f"packed structs with {kind}", "Leave out the mark, or the field."
        size += byte_width(kind) or 0
    if version == "2.1" and size > _MAX_PACKED:
        yield f"packed structs of {size} bytes", "Leave out the mark, or use version 2.2."


def too_many_categories(field: pa.Field, version: str) -> UnsupportedTypeError:
    """Return the error for a dictionary column with more values than its keys allow."""
    null = ": version 2.0 stores null as one more value" if version == "2.0" else ""
    return UnsupportedTypeError(
        f"Column {field.name!r} of type {field.type} has more values in one file than its keys "
        f"can distinguish{null}. No release of the reference could read it.",
        hint="Cast it to a dictionary with larger keys, such as int32, or write another file.",
        column=field.name,
        type=str(field.type),
    )


def check_packed(array: pa.Array, depth: int, field: LanceField, version: str) -> None:
    """Raise ``UnsupportedTypeError`` if packed or empty structs have nulls they cannot store.

    ``array`` has the structs below ``depth`` levels of nesting.
    """
    for _ in range(depth):
        if pa.types.is_struct(array.type):
            if not field.children and ak.null_count(array):
                _refuse("structs without fields in null structs", array, field, version)
            array = ak.filter(array, array.is_valid()) if ak.null_count(array) else array
            array = child_of(array, 0)
        else:
            array = flattened(array)
    if (not field.children or version == "2.0") and ak.null_count(array):
        _refuse("null structs", array, field, version)
    valid = ak.filter(array, array.is_valid()) if ak.null_count(array) else array
    if any(ak.null_count(child_of(valid, i)) for i in range(array.type.num_fields)):
        _refuse("nulls in fields of packed structs", array, field, version)


def check_text(array: pa.Array, depth: int, field: LanceField) -> None:
    """Raise ``InvalidArgumentError`` if strings are not UTF-8, which no reader would accept.

    ``array`` has the strings below ``depth`` levels of nesting.
    """
    for _ in range(depth):
        array = array.field(0) if isinstance(array, pa.StructArray) else items_of(array)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary
    if not is_variable(array.type) or len(array) == 0:
        return
    offsets, data = string_buffers(array)
    if not is_text(array, offsets, data):
        raise InvalidArgumentError(
            f"Column {field.name!r} of type {array.type} has bytes that are not UTF-8.",
            hint="Cast it to a binary column, or repair the text.",
            column=field.name,
        )


def _refuse(problem: str, array: pa.Array, field: LanceField, version: str) -> None:
    raise UnsupportedTypeError(
        f"Column {field.name!r} has {problem}, which files of version {version} cannot hold.",
        hint="Fill the nulls, or change the type.",
        column=field.name,
        type=str(array.type),
        version=version,
    )
