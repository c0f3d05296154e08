"""Addition of columns: nulls, SQL expressions, a function, a stream or the rows of a table.

See docs/format/operations.md, 6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._file.columns.limits import check_new_marks
from lancekit._format.column_names import check_column_name, column_not_found, not_in_source
from lancekit._format.data_file import check_written
from lancekit._format.schema import LanceField, LanceSchema, check_key_type
from lancekit._legible import shown
from lancekit._operations.alter_columns import columns_task, merge_columns, write_to_all
from lancekit._operations.common.retry import RetryPolicy, retried_writing
from lancekit._operations.unmerged.audit import check_new_values
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import normalise_new_schema, plan_cast
from lancekit._pipeline.engine import choose_engine, spark_engine
from lancekit._pipeline.inputs import as_reader, is_spark_dataframe
from lancekit._pipeline.probe import KeyTable
from lancekit._pipeline.source import Source, open_source
from lancekit._pipeline.udf_checkpoint import Checkpoint, Remembered, ResultsKept
from lancekit._pipeline.write_columns import (
    Calls,
    Computed,
    Joined,
    Made,
    Maker,
    Streamed,
    returned_rows,
)
from lancekit._scan.expressions.assignment import compile_value, is_cast_null
from lancekit._scan.expressions.texts import value_sql
from lancekit._scan.fragment_rows import BATCH_ROWS
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import META_COLUMNS, FragmentReader
from lancekit._scan.fragments.rebatch import joined, taken
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.outputs import converted
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError
from lancekit.options import options


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns:
    """Arguments of `LanceDataset.add_columns` and `replace_columns`, unchecked."""

    transforms: Any
    read_columns: Sequence[str] | None = None
    schema: pa.Schema | None = None
    batch_size: int | None = None
    num_threads: int = 1
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Columns to add to one version: its new schema, the stored columns, and their maker.

    The maker is ``None`` for columns of nulls, which no file stores.
    """

    schema: LanceSchema
    stored: LanceSchema
    maker: Maker | None

    @property
    def preserves_nullability(self) -> bool:
        """True if all stored columns are nullable, so that rows without values still fit."""
        return all(field.nullable for field in self.stored.fields)


def add_columns(snapshot: Snapshot, new: NewColumns) -> Snapshot:
    """Add columns: write one new file per fragment, or none for columns of nulls.

    Raises InvalidArgumentError: a column exists already, or the values do not fit the rows.
    Raises PredicateError: an expression does not fit the schema.
    """
    policy = RetryPolicy()
    if is_stream(new.transforms):
        policy = RetryPolicy(conflict_retries=0)  # a stream can be read only once

    new = with_checkpoint(snapshot, new)
    return retried_writing(snapshot, lambda at: _land(at, plan_addition(at, new)), policy)[0]


def merge_rows(
    snapshot: Snapshot, data: object, schema: pa.Schema | None, left_on: str, right_on: str | None
) -> Snapshot:
    """Add the columns of other rows, joined by a key.

    Raises ColumnNotFoundError: a key column does not exist.
    Raises SchemaMismatchError: the keys have different types.
    Raises InvalidArgumentError: a column exists already.
    Raises DuplicateKeysError: rows of a Spark DataFrame share a key; in other data the last counts.
    """
    on = right_on or left_on
    source = _join_source(snapshot, data, schema, left_on, on)

    def attempt(current: Snapshot) -> Snapshot:
        # Spark has no unsigned numbers and pandas has large strings, so keys are cast
        kind = check_join_keys(current.manifest.schema, source.schema, left_on, on, exact=False)
        others = pa.schema([f.with_nullable(True) for f in source.schema if f.name != on])
        schema, stored = _added(current, others)
        check_new_values(current, stored.names[0])
        plan = plan_cast(source.schema, pa.schema([pa.field(on, kind), *stored.to_arrow()]))
        nothing = Streamed(iter(()), stored.to_arrow())  # the source computes the columns
        tasks = [columns_task(current, s, stored, nothing) for s in fragment_sources(current)]
        fragments = source.join_columns(plan, tasks, left_on, on)
        return merge_columns(current, fragments, schema, preserves=True)

    with source:
        return retried_writing(snapshot, attempt, RetryPolicy())[0]


def key_like(snapshot: Snapshot, left_on: str, right_on: str) -> pa.Schema:
    """Return the schema that guides type inference of rows to join: their key."""
    return pa.schema([f.with_name(right_on) for f in snapshot.row_schema if f.name == left_on])


def _join_source(
    snapshot: Snapshot, data: object, schema: pa.Schema | None, left_on: str, on: str
) -> Source:
    """Open the rows to join on the engine that joins them: Spark for a large dataset."""
    like = key_like(snapshot, left_on, on)
    if is_spark_dataframe(data) or choose_engine(snapshot.manifest.num_rows).engine == "local":
        with options(engine="auto"):
            return open_source(data, schema, like)
    table = as_reader(data, schema, like).read_all()
    if on in table.column_names:  # Spark would refuse repeated keys: keep the last row of each
        key = table.column(on)
        backwards = joined(key.chunks, key.type)[::-1]
        last = table.num_rows - 1 - KeyTable((on,), (backwards,)).first_rows
        table = taken(table, np.sort(last))
    source: Source = spark_engine().source(table, None)
    return source


def _land(current: Snapshot, addition: Addition) -> Snapshot:
    fragments = current.manifest.fragments
    preserves = addition.preserves_nullability
    if addition.maker is None:
        return merge_columns(current, fragments, addition.schema, preserves=True)
    check_new_values(current, addition.stored.names[0])
    with ResultsKept(addition.maker):
        written = write_to_all(current, addition.stored, addition.maker)
        return merge_columns(current, written, addition.schema, preserves=preserves)


# ---- plans of additions


def plan_addition(current: Snapshot, new: NewColumns) -> Addition:
    """Plan an addition: the new fields, and how to compute their values."""
    given = new.transforms
    if isinstance(given, pa.Field):
        given = [given]
    if isinstance(given, list) and given and all(isinstance(f, pa.Field) for f in given):
        given = pa.schema(given)
    if isinstance(given, pa.Schema):
        return null_columns(current, given)
    if isinstance(given, Mapping):
        return _computed(current, given)
    if is_stream(given):
        return _streamed(current, replace(new, transforms=given))
    return _made(current, new)


def is_stream(given: object) -> bool:
    """Return True if an argument is rows, and not fields, expressions or a function."""
    fields = isinstance(given, pa.Field | pa.Schema) or (
        isinstance(given, list) and all(isinstance(f, pa.Field) for f in given)
    )
    return not (fields or isinstance(given, Mapping) or callable(given))


def _new_fields(current: Snapshot, arrow: pa.Schema) -> LanceSchema:
    free = current.manifest.max_field_id() + 1
    new = LanceSchema.from_arrow(normalise_new_schema(arrow), free)
    check_new_marks(new)
    return new


def _added(
    current: Snapshot,
    arrow: pa.Schema,
    hint: str = "Choose another name, or change the values of the column with update().",
) -> tuple[LanceSchema, LanceSchema]:
    """Return the version's schema with new columns at its end, and the new columns alone."""
    schema = current.manifest.schema
    if not len(arrow):
        raise InvalidArgumentError("No columns were given.", hint="Name one to add.")
    for name in arrow.names:
        if name in schema:
            raise InvalidArgumentError(f"Column {name!r} already exists.", hint=hint, column=name)
    new = _new_fields(current, arrow)
    return replace(schema, fields=schema.fields + new.fields), LanceSchema(new.fields)


def null_columns(current: Snapshot, arrow: pa.Schema) -> Addition:
    """Plan columns of nulls, which no file stores; a struct that exists gets its new fields."""
    # releases that write legacy tables cannot read a column that no file stores
    check_written(current.manifest.storage_version)
    for field in arrow:
        if not field.nullable:
            raise InvalidArgumentError(
                f"Column {field.name!r} would hold only nulls, but it is not nullable.",
                hint="Make it nullable, or pass an SQL expression for its values.",
                column=field.name,
            )
    schema = current.manifest.schema
    new = _new_fields(current, arrow)
    fields = {f.name: f for f in schema.fields}
    for added in new.fields:
        fields[added.name] = _merged(fields.get(added.name), added, added.name)
    return Addition(
        schema=replace(schema, fields=tuple(fields.values())), stored=LanceSchema(()), maker=None
    )


def _merged(old: LanceField | None, new: LanceField, path: str) -> LanceField:
    """Return the old field with the children of the new struct that it lacks."""
    if old is None:
        return new
    if old.logical_type != "struct" or new.logical_type != "struct":
        raise InvalidArgumentError(
            f"Column {path!r} already exists.", hint="Choose another name.", column=path
        )
    children = {child.name: child for child in old.children}
    for child in new.children:
        below = _merged(children.get(child.name), child, f"{path}.{child.name}")
        children[child.name] = replace(below, parent_id=old.id)
    return replace(old, children=tuple(children.values()))


def _computed(current: Snapshot, given: Mapping[str, object]) -> Addition:
    if not all(isinstance(name, str) and not callable(one) for name, one in given.items()):
        raise InvalidTypeError(
            f"New columns must be a dict of names and SQL expressions, got {shown(dict(given))}.",
            hint="Pass a dict such as {'double': 'x * 2'}, or a function itself, not in a dict: it "
            "receives a pyarrow.RecordBatch, and returns the new columns.",
        )
    for name, value in given.items():
        check_column_name(name)
        if value is None:
            raise InvalidTypeError(
                f"None is no value for the new column {name!r}: it has no type.",
                hint=f"Pass a field for a column of nulls: pa.field({name!r}, pa.string()).",
                column=name,
            )
    arrow = blob_view(current.manifest.schema).to_arrow()
    values = [value_sql(value, name) for name, value in given.items()]
    expressions = tuple(
        compile_value(sql, arrow, name, "add_columns")
        for name, sql in zip(given, values, strict=True)
    )
    # a copied column keeps its own type, although expressions compute with another one
    fields = [
        (converted(one, arrow) or pa.field(name, one.type)).with_name(name)
        for name, one in zip(given, expressions, strict=True)
    ]
    types = tuple(field.type for field in fields)
    schema, stored = _added(current, pa.schema(fields))
    if all(map(is_cast_null, expressions)):
        check_written(current.manifest.storage_version)
        return Addition(schema=schema, stored=LanceSchema(()), maker=None)
    return Addition(schema=schema, stored=stored, maker=Computed(expressions, types))


def _streamed(current: Snapshot, new: NewColumns) -> Addition:
    if is_spark_dataframe(new.transforms):
        raise InvalidTypeError(
            "A Spark DataFrame cannot be added by position, because its rows have no order.",
            hint='Match the rows by a key column that both sides have: add_columns(df, on="id").',
        )
    reader = as_reader(new.transforms, new.schema)
    schema, stored = _added(current, reader.schema)
    plan = plan_cast(reader.schema, stored.to_arrow())
    maker = Streamed(cast_all(plan, reader), stored.to_arrow())
    return Addition(schema=schema, stored=stored, maker=maker)


def _made(current: Snapshot, new: NewColumns) -> Addition:
    columns, arrow = function_results(current, new)
    hint = "Return only the new columns from the function, without the columns that it received."
    schema, stored = _added(current, arrow, hint)
    return Addition(
        schema=schema, stored=stored, maker=function_maker(new, columns, stored.to_arrow())
    )


def function_maker(new: NewColumns, columns: Sequence[str], schema: pa.Schema) -> Maker:
    """Return a maker that calls a user's function, and saves its results to a checkpoint if set."""
    calls = Calls(new.batch_size or BATCH_ROWS, new.num_threads)
    made = Made(new.transforms, tuple(columns), schema, calls)
    return made if new.checkpoint is None else Remembered(made, new.checkpoint)


def with_checkpoint(snapshot: Snapshot, new: NewColumns) -> NewColumns:
    """Return the new columns with the checkpoint file of their function, if it has one."""
    file = getattr(new.transforms, "checkpoint_file", None)
    if file is None:
        return new
    given = {
        "the dataset": snapshot.location.uri,
        "the version of the dataset": f"{snapshot.branch or 'main'}:{snapshot.version}",
        "read_columns": repr(new.read_columns),
        "the schema of the results": str(new.schema or new.transforms.output_schema),
    }
    checkpoint = Checkpoint.of(file, new.transforms.func, new.transforms.version, given)
    return replace(new, checkpoint=checkpoint)


def function_results(current: Snapshot, new: NewColumns) -> tuple[Sequence[str], pa.Schema]:
    """Return the input columns of a user's function, and the schema of its results.

    Raises InvalidTypeError: the argument is not callable.
    Raises InvalidArgumentError: no schema is declared, and the dataset has no row to try.
    """
    function: Callable[[pa.RecordBatch], object] = new.transforms
    if not callable(function):
        raise InvalidTypeError(
            "New columns must be SQL expressions, fields, a function or rows, got "
            f"{shown(function)}."
        )
    columns = current.manifest.schema.names if new.read_columns is None else new.read_columns
    known = [*current.manifest.schema.names, *META_COLUMNS]
    for name in columns:
        if name not in known:
            raise column_not_found(name, known)
    declared = new.schema or getattr(function, "output_schema", None)
    return columns, _sampled(current, function, columns) if declared is None else declared


def _sampled(
    current: Snapshot, function: Callable[[pa.RecordBatch], object], columns: Sequence[str]
) -> pa.Schema:
    """Return the schema of a function's results, from a call on one row."""
    for source in fragment_sources(current, blob_view(current.manifest.schema)):
        reader = FragmentReader(source)
        rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
        if len(rows):
            (batch,) = ak.combine_chunks(reader.read(list(columns), rows[:1])).to_batches()
            return returned_rows(function, batch).schema
    raise InvalidArgumentError(
        "The result columns of the function are unknown, because the dataset has no rows.",
        hint="Pass their schema: reader_schema=.",
    )


def plan_join(current: Snapshot, table: pa.Table, left_on: str, right_on: str) -> Addition:
    """Plan an addition of another table's columns, joined by a key."""
    check_join_keys(current.manifest.schema, table.schema, left_on, right_on)
    others = pa.schema([f.with_nullable(True) for f in table.schema if f.name != right_on])
    schema, stored = _added(current, others)
    plan = plan_cast(others, stored.to_arrow())
    values = pa.Table.from_batches(
        cast_all(plan, table.select(others.names).to_batches()), stored.to_arrow()
    )
    keyed = values.append_column("\0key", table.column(right_on))
    return Addition(schema=schema, stored=stored, maker=Joined.by(keyed, left_on, "\0key"))


def _key_kind(kind: pa.DataType) -> str:
    """Return the family of a key's type: text and integers without their width."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or pa.types.is_string_view(kind):
        return "text"
    return "integer" if pa.types.is_integer(kind) else str(kind)


def check_join_keys(
    schema: LanceSchema, rows: pa.Schema, left_on: str, right_on: str, *, exact: bool = True
) -> pa.DataType:
    """Return the type of the dataset's key column; raise if the rows' key does not match it."""
    if right_on not in rows.names:
        raise not_in_source(right_on, rows.names, "join")
    if left_on in META_COLUMNS:
        kind = pa.uint64()
    else:
        field = schema.field(left_on)
        check_key_type(field)
        kind = field.to_arrow().type
    found = rows.field(right_on).type
    if not found.equals(kind) and (exact or _key_kind(found) != _key_kind(kind)):
        raise SchemaMismatchError(
            f"The key columns differ in type: {right_on!r} of the new rows is {found}, "
            f"{left_on!r} of the dataset is {kind}.",
            column=right_on,
        )
    return kind
