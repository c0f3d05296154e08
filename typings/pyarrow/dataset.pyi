"""The parts of pyarrow.dataset that lancekit uses."""

from collections.abc import Iterator

from pyarrow import NativeFile, RecordBatch, RecordBatchReader, Schema, Table
from pyarrow.csv import ConvertOptions, ParseOptions

class Scanner:
    def to_reader(self) -> RecordBatchReader: ...

class Fragment:
    physical_schema: Schema
    def to_batches(self, schema: Schema) -> Iterator[RecordBatch]: ...

class FileFragment(Fragment):
    path: str
    def open(self) -> NativeFile: ...

class Dataset:
    schema: Schema
    def get_fragments(self) -> Iterator[Fragment]: ...
    def scanner(self) -> Scanner: ...
    def to_table(self) -> Table: ...

class FileSystemDataset(Dataset):
    format: object
    def get_fragments(self) -> Iterator[FileFragment]: ...

def dataset(
    source: str | list[str],
    schema: Schema | None = None,
    format: str | CsvFileFormat | None = None,
    *,
    partitioning: str | None = None,
) -> FileSystemDataset: ...

class CsvFragmentScanOptions:
    convert_options: ConvertOptions

class CsvFileFormat:
    default_fragment_scan_options: CsvFragmentScanOptions
    def __init__(self, parse_options: ParseOptions, convert_options: ConvertOptions) -> None: ...
