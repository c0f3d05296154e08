"""The part of pyarrow.csv that lancekit uses."""

from collections.abc import Mapping
from typing import Self

from pyarrow import DataType, Schema, Table

class CSVWriter:
    def __init__(self, sink: object, schema: Schema) -> None: ...
    def write_table(self, table: Table) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> object: ...

class ConvertOptions:
    column_types: Mapping[str, DataType]
    null_values: list[str]
    def __init__(
        self,
        *,
        column_types: Mapping[str, DataType] = ...,
        null_values: list[str] = ...,
        strings_can_be_null: bool = ...,
        quoted_strings_can_be_null: bool = ...,
    ) -> None: ...

class ParseOptions:
    def __init__(self, *, ignore_empty_lines: bool = ...) -> None: ...
