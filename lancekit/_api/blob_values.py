"""Blobs: large values that are written as bytes or URIs, and read like files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from lancekit._api.blob_type import BlobType, known_blob_type
from lancekit._arguments.checks import check_count
from lancekit._checked import checked, checked_methods
from lancekit._defaults import READ_AHEAD
from lancekit._legible import discreet_repr, shown
from lancekit._scan.fragments.blobs import BlobPlace
from lancekit._storage.base import RandomAccess
from lancekit.errors import InvalidArgumentError, InvalidTypeError, type_name

__all__ = ["Blob", "BlobColumn", "BlobFile", "BlobType", "blob_array", "blob_field"]

_THRESHOLDS = "lance-encoding:blob-{}-size-threshold"


# ---- to write


@checked_methods
@dataclass(frozen=True, slots=True)
class Blob:
    """A blob to write: bytes, or the URI and optionally the byte range of a file with its bytes."""

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (not self.uri):
            raise InvalidArgumentError(
                "A blob must have either data or a URI.", hint="Use None for a null."
            )
        ranged = self.position is not None
        if ranged != (self.size is not None) or (ranged and (self.uri is None or not self.size)):
            raise InvalidArgumentError(
                "A range of an external file must have a position of 0 or more and a size above "
                f"0, got {shown(self.position)} and {shown(self.size)}."
            )

    __repr__ = discreet_repr

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """Return a blob with the given bytes."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """Return a blob that references a file, or a range of its bytes, by URI.

        Parameters
        ----------
        uri
            The path or URI of the file.
        position, size
            The first byte and the number of bytes; both or neither.

        Returns
        -------
        Blob
            The reference; the file is not read.

        Raises
        ------
        InvalidArgumentError
            The URI is empty, or only one of ``position`` and ``size`` was given.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.Blob.from_uri("file:///pictures/all.bin", 4, 10).size
        10
        """
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """Return a blob of zero bytes."""
        return Blob(data=b"")


def blob_array(values: Iterable[object]) -> pa.ExtensionArray:
    """Convert bytes, URIs, `Blob` objects or ``None`` to an Arrow array of blobs.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> schema = pa.schema([lk.blob_field("image")])
    >>> rows = pa.table([lk.blob_array([b"first", None])], schema=schema)
    >>> ds = lk.write_dataset(rows, "memory://blob-example")
    >>> first, missing = ds.take_blobs("image", indices=[0, 1])
    >>> first.read(), missing
    (b'first', None)
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"values must be a list of blobs, got {shown(values)}.")
    blobs = [_blob(value) for value in values]
    kind = known_blob_type()
    fields = list(cast("pa.StructType", kind.storage_type))
    children = [_part(blobs, field) for field in fields]
    mask = pa.array([blob is None for blob in blobs], pa.bool_())
    storage = pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    return pa.ExtensionArray.from_storage(kind, storage)


def _part(blobs: Sequence[Blob | None], field: pa.Field) -> pa.Array:
    try:
        return pa.array([blob and getattr(blob, field.name) for blob in blobs], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        why = str(error).partition("\n")[0]
        raise InvalidArgumentError(
            f"The {field.name} of a blob cannot be stored: {why}.", part=field.name
        ) from error


def _blob(value: object) -> Blob | None:
    if value is None or isinstance(value, Blob):
        return value
    if isinstance(value, str):
        return Blob(uri=value)
    if isinstance(value, bytes | bytearray | memoryview):
        return Blob(data=bytes(value))
    raise InvalidTypeError(
        f"A blob must be bytes, a URI, a Blob or None, got {shown(value)}.", value=value
    )


@checked
def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """Return the Arrow field of a blob column.

    The thresholds, in bytes, are for other writers. lancekit writes all bytes into data files.

    Parameters
    ----------
    name
        The name of the column.
    nullable
        Whether the column can have nulls.
    inline_size_threshold, dedicated_size_threshold, pack_file_size_threshold
        Stored in the field's metadata, in bytes; the last two are 1 or more.

    Returns
    -------
    pyarrow.Field
        A field of type `BlobType`.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        A threshold is no whole number, too small, or has more than 64 bits.

    Examples
    --------
    >>> import lancekit as lk
    >>> lk.blob_field("image", nullable=False).name
    'image'
    """
    given = {
        "inline": ("inline_size_threshold", inline_size_threshold, 0),
        "dedicated": ("dedicated_size_threshold", dedicated_size_threshold, 1),
        "pack-file": ("pack_file_size_threshold", pack_file_size_threshold, 1),
    }
    metadata = {
        _THRESHOLDS.format(kind): str(_threshold(name, value, least))
        for kind, (name, value, least) in given.items()
        if value is not None
    }
    return pa.field(name, known_blob_type(), nullable, metadata or None)


def _threshold(name: str, value: int, least: int) -> int:
    size = check_count(name, value, least=least)
    if size >> 64:
        raise InvalidArgumentError(
            f"{name} must fit into 64 bits, got {size}.",
            hint=f"Pass at most {2**64 - 1}.",
            argument=name,
        )
    return size


# ---- to read


class BlobColumn:
    """Iterates over a binary column in memory, and yields the bytes of each value as a file.

    Raises
    ------
    InvalidArgumentError
        ``blob_column`` is no Arrow array of binary or large binary.

    Examples
    --------
    >>> import pyarrow as pa
    >>> [file and file.read() for file in BlobColumn(pa.array([b"first", None]))]
    [b'first', None]
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        kind = getattr(blob_column, "type", None)
        if kind not in (pa.binary(), pa.large_binary()):
            raise InvalidArgumentError(
                f"Expected a binary array, got {type_name(blob_column)} of {kind}.",
                hint="Cast it, or pass another column.",
            )
        self.blob_column = blob_column

    def __repr__(self) -> str:
        return f"BlobColumn({len(self.blob_column)} values)"

    def __iter__(self) -> Iterator[io.BytesIO | None]:
        for value in self.blob_column:
            yield io.BytesIO(value.as_py()) if value.is_valid else None


@checked_methods
class BlobFile(io.RawIOBase):
    """The bytes of one blob as a read-only file, fetched on demand.

    `LanceDataset.take_blobs` returns them.
    """

    def __init__(self, place: BlobPlace, buffer_size: int = READ_AHEAD) -> None:
        super().__init__()
        self._place = place
        self._source: RandomAccess | None = None
        self._size = place.size
        self._at = 0
        self._buffer_size = buffer_size
        self._ahead = (0, b"")

    def size(self) -> int:
        """Return the number of bytes."""
        if self._size is None:
            self._size = self._opened().size()
        return self._size

    def _opened(self) -> RandomAccess:
        if self._source is None:
            self._source = self._place.open()
        return self._source

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position, relative to the start, the position or the end.

        Parameters
        ----------
        offset
            The number of bytes.
        whence
            0 from the start, 1 from the position, 2 from the end.

        Returns
        -------
        int
            The new position in bytes; it can be after the end.

        Raises
        ------
        InvalidArgumentError
            The position would be before the start, ``whence`` is unknown, or the file is closed.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = pa.table([lk.blob_array([b"abcdef"])], schema=pa.schema([lk.blob_field("b")]))
        >>> (blob,) = lk.write_dataset(rows, "memory://seek-example").take_blobs("b", indices=[0])
        >>> blob.seek(-2, 2), blob.read()
        (4, b'ef')
        """
        self._check_open()
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size()}
        if whence not in starts:
            raise InvalidArgumentError(f"whence must be 0, 1 or 2, got {whence!r}.")
        target = starts[whence] + offset
        if target < 0:
            raise InvalidArgumentError(f"Cannot seek to {target}, before the start of the blob.")
        self._at = target
        return target

    def read(self, size: int | None = -1) -> bytes:
        """Read ``size`` bytes from the position on, or all remaining bytes."""
        self._check_open()
        left = max(self.size() - self._at, 0)
        count = left if size is None or size < 0 else min(size, left)
        data = self._fetch(self._at, count)
        self._at += count
        return data

    read1 = read

    def readall(self) -> bytes:
        """Read all remaining bytes."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer, as many as fit."""
        try:
            view = memoryview(buffer).cast("B")
        except TypeError:
            view = memoryview(b"")
        if view.readonly:
            raise InvalidTypeError(
                f"buffer must be writable, got {type_name(buffer)}.",
                hint="Pass a bytearray, for example.",
            )
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        """Read ``length`` bytes at an offset, without moving the position.

        Parameters
        ----------
        offset, length
            The first byte and the number of bytes.

        Returns
        -------
        bytes
            Exactly ``length`` bytes.

        Raises
        ------
        InvalidArgumentError
            The range is not within the blob, or the file is closed.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = pa.table([lk.blob_array([b"abcdef"])], schema=pa.schema([lk.blob_field("b")]))
        >>> ds = lk.write_dataset(rows, "memory://blob-range-example")
        >>> ds.take_blobs("b", indices=[0])[0].read_range(1, 3)
        b'bcd'
        """
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges, given as pairs of offset and length, at once."""
        self._check_open()
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self.size():
                raise InvalidArgumentError(
                    f"The range of {length} bytes from {offset} is outside of the blob's "
                    f"{self.size()} bytes."
                )
        if not any(length for _, length in ranges):
            return [b"" for _ in ranges]
        places = [(self._place.position + offset, length) for offset, length in ranges]
        return [bytes(part) for part in self._opened().read_many(places)]

    def _fetch(self, start: int, count: int) -> bytes:
        if count == 0:
            return b""
        first, data = self._ahead
        if not first <= start <= start + count <= first + len(data):
            most = min(max(count, self._buffer_size), self.size() - start)
            first, data = start, bytes(self._opened().read(self._place.position + start, most))
            self._ahead = (first, data)
        return data[start - first : start - first + count]

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidArgumentError("This blob is closed.", hint="Take it again.")

    def close(self) -> None:
        """Release the file."""
        self._source, self._ahead = None, (0, b"")
        super().close()

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"
