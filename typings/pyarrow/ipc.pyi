from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from pyarrow import (
    Buffer,
    MemoryPool,
    NativeFile,
    RecordBatch,
    RecordBatchReader,
    Schema,
    Table,
    _SupportsBuffer,
    _Writable,
)

class IpcReadOptions:
    def __init__(
        self,
        *,
        ensure_native_endian: bool = True,
        use_threads: bool = True,
        included_fields: list[int] | None = None,
    ) -> None: ...

class IpcWriteOptions:
    def __init__(self, *, compression: Any = None, **kwargs: Any) -> None: ...

class Message:
    @property
    def type(self) -> str: ...
    @property
    def body(self) -> Buffer: ...
    @property
    def metadata(self) -> Buffer: ...

class MessageReader:
    @staticmethod
    def open_stream(source: NativeFile | _SupportsBuffer) -> MessageReader: ...
    def read_next_message(self) -> Message: ...
    def __iter__(self) -> Iterator[Message]: ...

class RecordBatchFileReader:
    @property
    def schema(self) -> Schema: ...
    @property
    def num_record_batches(self) -> int: ...
    def get_batch(self, i: int) -> RecordBatch: ...
    def read_all(self) -> Table: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...

class RecordBatchStreamWriter:
    def write(self, table_or_batch: Table | RecordBatch) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...
    def write_table(self, table: Table, max_chunksize: int | None = None) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...

class RecordBatchFileWriter(RecordBatchStreamWriter): ...

def new_file(
    sink: str | NativeFile | _Writable, schema: Schema, *, options: IpcWriteOptions | None = None
) -> RecordBatchFileWriter: ...
def new_stream(
    sink: str | NativeFile | _Writable, schema: Schema, *, options: IpcWriteOptions | None = None
) -> RecordBatchStreamWriter: ...
def open_file(
    source: NativeFile | _SupportsBuffer,
    footer_offset: int | None = None,
    *,
    options: IpcReadOptions | None = None,
    memory_pool: MemoryPool | None = None,
) -> RecordBatchFileReader: ...
def open_stream(
    source: NativeFile | _SupportsBuffer,
    *,
    options: IpcReadOptions | None = None,
    memory_pool: MemoryPool | None = None,
) -> RecordBatchReader: ...
def read_schema(obj: NativeFile | Buffer | Message) -> Schema: ...
def read_record_batch(obj: Message | Buffer, schema: Schema) -> RecordBatch: ...
