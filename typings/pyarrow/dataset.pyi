"""The parts of pyarrow.dataset that lancekit uses."""

from collections.abc import Iterator

from pyarrow import Schema, Table

class Fragment:
    physical_schema: Schema

class Dataset:
    schema: Schema
    def get_fragments(self) -> Iterator[Fragment]: ...
    def to_table(self) -> Table: ...

def dataset(
    source: str | list[str],
    schema: Schema | None = None,
    format: str | None = None,
    *,
    partitioning: str | None = None,
) -> Dataset: ...
