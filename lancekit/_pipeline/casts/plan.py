"""Lossless casts from the schema of incoming rows to the dataset's schema.

pandas, Polars and Spark write one type in different ways: ``large_string``, other time units,
other names of list elements, every field nullable.  ``plan_cast`` compares two schemas once.
``CastPlan.apply`` casts each batch to exactly the dataset's schema, and refuses a value that
would change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._casts import family_of
from lancekit._format.arrow_parts import item_field
from lancekit._format.extensions import EXTENSION_NAME, holds_json, is_json
from lancekit._format.field_marks import BLOB, BLOB_V2, OF_POLARS
from lancekit._format.jsonb import to_jsonb
from lancekit._pipeline.casts.rules import BLOB_STRUCT, LossError, cast_array, find_rule
from lancekit._scan.fragments.split_fields import nulls_of
from lancekit.errors import SchemaMismatchError


def _show(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


#: the owner of the target schema, and its name in errors
_CALLED = {"the dataset": "the dataset's schema", "schema=": "schema="}


def _mismatch(lines: list[str], hint: str, whose: str, **context: object) -> SchemaMismatchError:
    listed = [f"  {line}." for line in lines]
    return SchemaMismatchError(
        f"the rows do not fit {_CALLED[whose]}:", details=listed, hint=hint, **context
    )


def _cast_hint(field: pa.Field, source: pa.DataType, whose: str) -> str:
    """Return a hint for a clash of types: the decision for the user, with the Arrow call."""
    target = field.type
    if holds_json(field):
        text = "as text, or " if is_json(field) else ""
        return f"Pass the JSON of {field.name!r} {text}with the type pa.json_()."
    if (
        pt.is_timestamp(source)
        and pt.is_timestamp(target)
        and (source.tz is None) != (target.tz is None)
    ):
        if source.tz is None:
            return f"Set the time zone of {field.name!r}: pc.assume_timezone(column, 'UTC')."
        return f"Drop the zone of {field.name!r}: pc.local_timestamp(column)."
    for path, kind in _untyped(source, target, field.name):
        return _type_hint(path, kind, field, whose)
    if lacking := list(_lacking(source, target, field.name)):
        # no cast: it would overwrite the stored values of the missing fields with nulls
        return f"Add the missing fields of {field.name!r} to the rows: {', '.join(lacking)}."
    if not _is_castable(source, field):
        return f"Convert {field.name!r} to {target} first: Arrow does not cast {source} to it."
    if (field.metadata or {}).get(EXTENSION_NAME) == b"arrow.uuid" and family_of(source) == "text":
        # Arrow's cast would read the 36 characters as the 16 bytes
        made = "pa.array([text and uuid.UUID(text).bytes for text in column.to_pylist()])"
        return f"Convert {field.name!r} to bytes first: {made}."
    arrow = f"column.cast({_spelled(field, whose)}) in Arrow"
    return f"Cast {field.name!r} to {target} first: {arrow}, astype() in pandas, cast() in Spark."


def _untyped(
    source: pa.DataType, target: pa.DataType, path: str
) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the path and new type of each part whose type is null for lack of values."""
    if pt.is_struct(source) and pt.is_struct(target):
        given = {field.name: field.type for field in source}
        for field in target:
            if field.name in given:
                yield from _untyped(given[field.name], field.type, f"{path}.{field.name}")
    elif _is_untyped(target) and not _is_untyped(source):
        yield path, _stored(source)


def _is_untyped(kind: pa.DataType) -> bool:
    """Return True for null, and for lists of null items: types that hold no values."""
    return _is_untyped(item_field(kind).type) if family_of(kind) == "list" else pt.is_null(kind)


def _type_hint(path: str, kind: pa.DataType, field: pa.Field, whose: str) -> str:
    if whose != "the dataset":
        return f"Set the type of {path!r} in schema=: it has only nulls."
    code = spelled(kind, f"rows.schema.field({field.name!r}).type")
    return (
        f"{path!r} has only nulls so far, and so no type. Set a type, then write the rows: "
        f"ds.alter_columns({{'path': {path!r}, 'data_type': {code}}})."
    )


def _has_alias(kind: pa.DataType) -> bool:
    try:
        return bool(pa.type_for_alias(str(kind)).equals(kind))
    except ValueError:
        return False


def _is_castable(source: pa.DataType, target: pa.Field) -> bool:
    try:
        pa.nulls(1, source).cast(target.type)  # Arrow casts an empty array to any type
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


def _spelled(field: pa.Field, whose: str) -> str:
    """Return Python code for a field's type: its alias, or else its lookup in the schema."""
    if _has_alias(field.type):
        return repr(str(field.type))
    schema = "ds.schema" if whose == "the dataset" else "schema"
    return f"{schema}.field({field.name!r}).type"


def _lacking(source: pa.DataType, target: pa.DataType, path: str) -> Iterator[str]:
    """Yield the paths of the target's struct fields, at any depth, that the source lacks."""
    if not (pt.is_struct(source) and pt.is_struct(target)):
        return
    given = {field.name: field.type for field in source}
    for field in target:
        below = f"{path}.{field.name}"
        if field.name in given:
            yield from _lacking(given[field.name], field.type, below)
        else:
            yield below


@dataclass(frozen=True, slots=True, kw_only=True)
class CastPlan:
    """A cast of batches from one schema to another.  Can be pickled.

    source: the schema of the input batches.
    target: the schema of the output batches.
    whose: the owner of the target schema, for messages: ``"the dataset"`` or ``"schema="``.
    first: a plan for the same columns that is applied before this one.
    """

    source: pa.Schema
    target: pa.Schema
    whose: str = "the dataset"
    first: CastPlan | None = None

    def apply(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """Cast one batch.

        batch: rows of the source schema.
        first_row: the position of the batch's first row in the whole input, for messages.

        Raises SchemaMismatchError: the target's type cannot hold a value exactly, or a column
            that is not nullable has a null. ``context`` has the column, row and value.
        """
        columns = [self._column(batch, field, first_row) for field in self.target]
        if not columns:
            return batch.select([]).replace_schema_metadata(self.target.metadata)
        return pa.RecordBatch.from_arrays(columns, schema=self.target)

    def pieces(self, batch: pa.RecordBatch, first_row: int = 0) -> Iterator[pa.RecordBatch]:
        """Cast one batch; split it if its categories are too many for one dictionary.

        The arguments and errors are the same as for `apply`.
        """
        try:
            yield self.apply(batch, first_row)
        except SchemaMismatchError as error:
            loss = error.__cause__
            crowded = isinstance(loss, LossError) and loss.crowded
            if not crowded or batch.num_rows < 2:
                raise
            half = batch.num_rows // 2
            yield from self.pieces(batch.slice(0, half), first_row)
            yield from self.pieces(batch.slice(half), first_row + half)

    def _column(self, batch: pa.RecordBatch, field: pa.Field, first_row: int) -> pa.Array:
        at = batch.schema.get_field_index(field.name)
        values = nulls_of(field, batch.num_rows) if at < 0 else batch.column(at)
        if self.first is not None and at >= 0:
            values = self.first._cast(values, self.first.target.field(field.name), first_row)
        return self._cast(values, field, first_row)

    def _cast(self, values: pa.Array, field: pa.Field, first_row: int) -> pa.Array:
        """Cast a column; a `SchemaMismatchError` names the row and value that do not fit."""
        try:
            if is_json(field) and _is_text(values.type):
                result = to_jsonb(values)
            else:
                result = cast_array(values, field.type)
        except LossError as loss:
            row = first_row + loss.index
            raise _mismatch(
                [f"{field.name}: the value {loss.value!r} in row {row} {loss.reason}"],
                # no cast is suggested: a cast that accepts the value changes it
                f"Change the value, leave the row out, or give {field.name!r} a type that can "
                "hold it.",
                self.whose,
                column=field.name,
                row=row,
                value=loss.value,
                type=str(values.type),
                expected=str(field.type),
            ) from loss
        if not field.nullable and ak.null_count(result):
            row = first_row + pc.index(result.is_null(), True).as_py()
            raise _mismatch(
                [f"{field.name}: row {row} is null, but the column is not nullable"],
                f"Fill or drop the nulls of {field.name!r}.",
                self.whose,
                column=field.name,
                row=row,
                value=None,
            )
        return result


def plan_cast(
    source: pa.Schema,
    target: pa.Schema,
    *,
    allow_missing: bool = False,
    optional: Collection[str] = (),
    whose: str = "the dataset",
) -> CastPlan:
    """Compare the schema of incoming rows with the dataset's, and plan the casts.

    source: the schema of the rows; columns are matched by name, in any order.
    target: the dataset's schema.
    allow_missing: whether the rows may lack nullable columns of the target, which become null.
    optional: names of further columns that the rows can have, for hints about misspelled names.
    whose: the owner of the target schema, as in `CastPlan`.

    Raises SchemaMismatchError: columns are unknown or missing, or their type has no lossless cast.
        Only the differences are listed. ``context`` has them as ``unexpected``, ``missing``
        (names), ``types`` (name to both types) and ``renames`` (likely spellings).

    Examples
    --------
    >>> plan = plan_cast(pa.schema({"x": pa.int64()}), pa.schema({"x": pa.int8()}))
    >>> plan.apply(pa.record_batch({"x": [1, 2]})).schema.field("x").type
    DataType(int8)
    """
    repeated = [name for name, times in Counter(source.names).items() if times > 1]
    if repeated:
        raise _mismatch(
            [f"{name}: several columns have this name" for name in repeated],
            "Rename all but one.",
            whose,
            repeated=repeated,
        )
    given = {field.name: field for field in source}
    wanted = {field.name: field for field in target}
    unexpected = [field for name, field in given.items() if name not in wanted]
    missing = [
        field
        for name, field in wanted.items()
        if name not in given and not (allow_missing and field.nullable)
    ]
    clashes = {
        name: (given[name], field)
        for name, field in wanted.items()
        if name in given and not _takes(field, given[name])
    }
    if not (unexpected or missing or clashes):
        return CastPlan(source=source, target=target, whose=whose)

    renames = _likely_renames(unexpected, (set(wanted) | set(optional)) - set(given))
    lines = [
        *(f"+ {f.name}: {_show(f)}, not in {whose}{_guess(renames, f)}" for f in unexpected),
        *(f"- {f.name}: {_show(f)}, missing in the rows" for f in missing),
        *(
            f"~ {name}: {_kind(s)} in the rows, {_kind(t)} in {whose}"
            for name, (s, t) in clashes.items()
        ),
    ]
    raise _mismatch(
        lines,
        _hint(target, unexpected, missing, clashes, renames, whose),
        whose,
        unexpected=[f.name for f in unexpected],
        missing=[f.name for f in missing],
        types={name: (_kind(s), _kind(t)) for name, (s, t) in clashes.items()},
        renames=renames,
    )


def _takes(target: pa.Field, source: pa.Field) -> bool:
    """Return True if a lossless cast exists; a JSON column takes JSON, text and nulls."""
    kind = source.type
    if is_json(target):
        return is_json(source) or _is_text(kind) or pt.is_null(kind)
    if find_rule(kind, target.type) is None:
        return False
    if not holds_json(target):
        return True
    below = [target.type.field(at) for at in range(target.type.num_fields)]
    if pt.is_struct(target.type):
        given = {field.name: field for field in (kind.field(at) for at in range(kind.num_fields))}
        return all(field.name not in given or _takes(field, given[field.name]) for field in below)
    return kind.num_fields != len(below) or all(
        _takes(field, kind.field(at)) for at, field in enumerate(below)
    )


def _is_text(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def _kind(field: pa.Field) -> str:
    return "JSON" if is_json(field) else str(field.type)


def _plain_name(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def _likely_renames(unexpected: list[pa.Field], absent: set[str]) -> dict[str, str]:
    """Pair unknown columns with absent columns whose names differ only in case and punctuation."""
    by_plain_name = {_plain_name(name): name for name in sorted(absent)}
    pairs = {field.name: by_plain_name.get(_plain_name(field.name)) for field in unexpected}
    return {name: other for name, other in pairs.items() if other is not None}


def _guess(renames: Mapping[str, str], field: pa.Field) -> str:
    other = renames.get(field.name)
    return f" (is it {other!r}?)" if other else ""


def _hint(
    target: pa.Schema,
    unexpected: list[pa.Field],
    missing: list[pa.Field],
    clashes: Mapping[str, tuple[pa.Field, pa.Field]],
    renames: Mapping[str, str],
    whose: str,
) -> str:
    if renames:
        return "Rename " + ", ".join(f"{a!r} to {b!r}" for a, b in renames.items()) + "."
    if clashes:
        name, (source, _) = next(iter(clashes.items()))
        return _cast_hint(target.field(name), source.type, whose)
    if unexpected:
        names = ", ".join(repr(f.name) for f in unexpected)
        added = ' with schema_mode="merge"' if whose == "the dataset" else ""
        return f"Drop {names}, or add them to {whose}{added}."
    return f"Add {', '.join(repr(f.name) for f in missing)} to the rows."


# ---- new datasets


def _stored_list(make: Callable[..., pa.DataType]) -> Callable[[pa.DataType], pa.DataType]:
    return lambda kind: make(_stored_field(item_field(kind)))


# The stored type for each type that data files do not have; nested types are mapped recursively.
_STORED: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], pa.DataType]], ...] = (
    (pt.is_string_view, lambda _: pa.string()),
    (pt.is_binary_view, lambda _: pa.binary()),
    (pt.is_decimal32, lambda t: pa.decimal128(t.precision, t.scale)),
    (pt.is_decimal64, lambda t: pa.decimal128(t.precision, t.scale)),
    (pt.is_dictionary, lambda t: pa.dictionary(t.index_type, _stored(t.value_type))),
    (pt.is_list, _stored_list(pa.list_)),
    (pt.is_list_view, _stored_list(pa.list_)),
    (pt.is_large_list, _stored_list(pa.large_list)),
    (pt.is_large_list_view, _stored_list(pa.large_list)),
    (
        pt.is_fixed_size_list,
        lambda t: pa.list_(
            _stored_field(t.value_field).with_name("item").with_nullable(True), t.list_size
        ),
    ),
    (pt.is_struct, lambda t: pa.struct([_stored_field(f) for f in t])),
    (pt.is_map, lambda t: pa.map_(_stored_field(t.key_field), _stored_field(t.item_field))),
)


def _stored(kind: pa.DataType) -> pa.DataType:
    return next((make(kind) for test, make in _STORED if test(kind)), kind)


def _stored_field(field: pa.Field) -> pa.Field:
    stored = field.with_type(_stored(field.type))
    notes = field.metadata or {}
    kept = {key: value for key, value in notes.items() if not key.startswith(OF_POLARS.encode())}
    return stored if len(kept) == len(notes) else stored.with_metadata(kept or None)


def normalise_new_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a new dataset for rows of the given schema.

    As in the reference, views become plain strings and binary, the elements of fixed-size lists
    lose their name, and ``large_string`` stays.  Small decimals and list views, which the
    reference refuses, become ``decimal128`` and lists.  Metadata that pandas and Polars add is
    dropped, because it describes one frame and not the rows that are written later.

    Examples
    --------
    >>> normalise_new_schema(pa.schema({"s": pa.string_view()})).field("s").type
    DataType(string)
    """
    metadata = {k: v for k, v in (schema.metadata or {}).items() if k != b"pandas"}
    return pa.schema([_stored_field(field) for field in schema], metadata=metadata or None)


def with_new_blobs(schema: pa.Schema) -> pa.Schema:
    """Return the schema with legacy blob columns as blobs of 2.2, as in the reference."""
    return pa.schema([_new_blob(field) for field in schema], schema.metadata)


def _new_blob(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    if pt.is_large_binary(field.type) and metadata.pop(BLOB.encode(), None) is not None:
        metadata[EXTENSION_NAME] = BLOB_V2.encode()
        return field.with_type(BLOB_STRUCT).with_metadata(metadata)
    if pt.is_struct(field.type):
        return field.with_type(pa.struct([_new_blob(child) for child in field.type]))
    return field


# ---- Python code of types, for hints that can be run

#: types whose string differs from the name of their factory function
_NAMES = {
    "bool": "bool_",
    "date32[day]": "date32",
    "date64[ms]": "date64",
    "double": "float64",
    "float": "float32",
    "halffloat": "float16",
}


def spelled(kind: pa.DataType, otherwise: str) -> str:
    """Return Python code for a type, or `otherwise` for a type without short code.

    Examples
    --------
    >>> spelled(pa.list_(pa.timestamp("us", "UTC")), "?")
    "pa.list_(pa.timestamp('us', 'UTC'))"
    >>> spelled(pa.map_(pa.int8(), pa.int8()), "?")
    '?'
    """
    if pt.is_timestamp(kind):
        return f"pa.timestamp({kind.unit!r}{'' if kind.tz is None else f', {kind.tz!r}'})"
    if pt.is_time(kind) or pt.is_duration(kind):
        return f"pa.{str(kind).partition('[')[0]}({kind.unit!r})"
    if pt.is_decimal(kind):
        return f"pa.{str(kind).partition('(')[0]}({kind.precision}, {kind.scale})"
    if pt.is_list(kind) or pt.is_large_list(kind):
        items = spelled(item_field(kind).type, "")
        make = "list_" if pt.is_list(kind) else "large_list"
        return f"pa.{make}({items})" if items else otherwise
    if pt.is_struct(kind):
        fields = [(field.name, spelled(field.type, "")) for field in kind]
        listed = ", ".join(f"({name!r}, {code})" for name, code in fields)
        return f"pa.struct([{listed}])" if all(code for _, code in fields) else otherwise
    name = _NAMES.get(str(kind), str(kind))
    return f"pa.{name}()" if name.isidentifier() and hasattr(pa, name) else otherwise
