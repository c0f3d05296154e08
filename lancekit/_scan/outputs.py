"""The columns of a result: stored or hidden columns, and expressions over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from lancekit._format.extensions import EXTENSION, EXTENSION_NAME
from lancekit._format.field_marks import is_blob_v2, texts
from lancekit._format.paths import canonical, parse_path, show_path
from lancekit._format.schema import LanceSchema
from lancekit._legible import shown
from lancekit._scan.expressions.kernels.operators import plain
from lancekit._scan.expressions.nodes import field_of
from lancekit._scan.expressions.predicate import ComputedColumn, compile_expression
from lancekit._scan.fragments.reader import column_field
from lancekit.errors import InvalidArgumentError, InvalidTypeError


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result: a stored or hidden column, or an expression over such columns.

    `path` is the path of a stored column if it differs from the field's name.
    """

    field: pa.Field
    expression: ComputedColumn | None = None
    path: str = ""

    @property
    def column(self) -> str:
        """The path or name of the stored or hidden column."""
        return self.path or self.field.name

    @property
    def inputs(self) -> frozenset[str]:
        """The columns to read for this output."""
        return self.expression.columns if self.expression else frozenset([self.column])


def plan_columns(
    schema: LanceSchema,
    columns: Sequence[str] | dict[str, str] | None,
    hidden: Sequence[str] = (),
    made: Sequence[pa.Field] = (),
) -> tuple[Output, ...]:
    """Return the outputs of a projection; ``None`` means every stored column.

    schema: the dataset's schema.
    columns: names and paths of nested fields, or SQL expressions by the names of their results.
    hidden: hidden columns that come last, even if they are also named in `columns`.
    made: additional columns that a search computes.

    Raises ColumnNotFoundError: a name is neither a stored nor a hidden column.
    Raises PredicateError: an expression does not fit the schema.
    """
    own = {field.name: Output(field) for field in made}
    if isinstance(columns, dict):
        arrow = pa.schema([*schema.to_arrow(), *made])
        for pair in columns.items():
            if not all(isinstance(one, str) for one in pair):
                raise InvalidTypeError(
                    f"columns must map names to SQL expressions, got {shown(pair)}."
                )
        outputs = [
            own[name] if name == sql and name in own else _computed(arrow, name, sql)
            for name, sql in columns.items()
        ]
    else:
        names = schema.names if columns is None else _names(columns)
        outputs = [
            own.get(name) or Output(column_field(schema, name), path=_path(schema, name))
            for name in names
        ]
    first = [output for output in outputs if output.field.name not in hidden]
    named = {output.field.name: output for output in outputs}
    last = [named.get(name) or Output(column_field(schema, name)) for name in hidden]
    return (*first, *last)


def _path(schema: LanceSchema, name: str) -> str:
    """Return the path of a column; a top-level column of this name wins over a nested path."""
    return show_path([name]) if name in schema else canonical(name)


def column_names(columns: object) -> list[str]:
    """Return names of columns; ``InvalidTypeError`` for anything else."""
    names: list[Any] = list(columns) if isinstance(columns, Iterable) else [columns]
    for name in names:
        if not isinstance(name, str):
            raise InvalidTypeError(f"columns must be a list of names or a dict, got {shown(name)}.")
    return names


def _names(columns: Sequence[str]) -> list[str]:
    names = column_names(columns)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(f"columns contains {name!r} twice.", column=name)
        seen.add(name)
    return names


def _computed(schema: pa.Schema, name: str, sql: str) -> Output:
    expression = compile_expression(sql, schema)
    column = field_of(expression.expr)
    if column is not None and (stored := converted(expression, schema)) is not None:
        return Output(stored.with_name(name), path=column.path)
    return Output(pa.field(name, expression.type), expression)


def converted(expression: ComputedColumn, schema: pa.Schema) -> pa.Field | None:
    """Return the stored field if an expression is only a column that is converted to be computed.

    The types are categories, half floats (also nested), and extension types. ``None`` for others.
    """
    column = field_of(expression.expr)
    top, *rest = parse_path(column.path) if column is not None else [""]
    if top not in schema.names:
        return None  # computed, or a hidden column
    field = schema.field(top)
    for name in rest:
        field = cast("pa.StructType", field.type).field(name)
    marks = {k: v for k, v in (field.metadata or {}).items() if k in EXTENSION}
    is_extension = EXTENSION_NAME in marks and not is_blob_v2(texts(marks))
    kind = field.type
    if pa.types.is_nested(kind):
        is_converted = plain(pa.nulls(0, kind)).type != kind
    else:
        is_converted = pa.types.is_dictionary(kind) or pa.types.is_float16(kind)
    if not (is_extension or is_converted):
        return None
    return pa.field(field.name, field.type, metadata=marks if is_extension else None)
