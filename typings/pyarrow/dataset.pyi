"""The parts of pyarrow.dataset that lancekit uses."""

from collections.abc import Iterator

from pyarrow import Schema, Table
from pyarrow.csv import ConvertOptions, ParseOptions

class Fragment:
    physical_schema: Schema

class Dataset:
    schema: Schema
    def get_fragments(self) -> Iterator[Fragment]: ...
    def to_table(self) -> Table: ...

def dataset(
    source: str | list[str],
    schema: Schema | None = None,
    format: str | CsvFileFormat | None = None,
    *,
    partitioning: str | None = None,
) -> Dataset: ...

class CsvFileFormat:
    def __init__(self, parse_options: ParseOptions, convert_options: ConvertOptions) -> None: ...
