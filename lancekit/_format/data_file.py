"""Data files and deletion files of a fragment, with pylance's attributes; format versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self

from lancekit._checked import checked, from_text
from lancekit._choice import check_choice
from lancekit._format.items import Items
from lancekit._format.names import DELETIONS
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import put_unknown, take_unknown
from lancekit._legible import shown
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    InvalidTypeError,
    NotOfferedError,
)

#: minor version in the footers of 2.0 files, which call themselves 0.3
_FIRST_OF_2_0 = 3


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of a fragment: `fields[i]` is stored in the file's column `column_indices[i]`.

    `file_size_bytes` is ``None`` if unknown.  `base_id` is the id of the base path, or ``None``
    for the dataset's own root.
    """

    path: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...] = ()
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None
    unknown: bytes = field(default=b"", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        for name in ("fields", "column_indices"):
            if not isinstance(given := getattr(self, name), Items):
                object.__setattr__(self, name, Items(given))

    @staticmethod
    @checked
    def create(dataset: object, path: str, *, base_id: int | None = None) -> DataFile:
        """Describe an existing data file, for an operation that adds it to the dataset.

        Parameters
        ----------
        dataset
            A dataset whose schema has the file's columns.
        path
            The file's name in the ``data`` folder.
        base_id
            The id of the base path of the file, if it is not in the dataset's own root.

        Returns
        -------
        DataFile
            The description, with the ids of the file's fields.

        Raises
        ------
        InvalidArgumentError
            The file or the base path does not exist.
        ColumnNotFoundError
            The file has a column that the dataset does not have.

        Examples
        --------
        >>> import lancekit as lk
        >>> from lancekit.fragment import DataFile
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://data-file-example")
        >>> there = ds.get_fragments()[0].data_files()[0]
        >>> DataFile.create(ds, there.path) == there
        True
        """
        # via the handle, because rooms above this one read files
        describe = getattr(dataset, "_described_file", None)
        if describe is None:
            raise InvalidTypeError(
                f"dataset must be a LanceDataset, got {shown(dataset)}.", argument="dataset"
            )
        described: DataFile = describe(path, base_id)
        return described

    @property
    def version(self) -> tuple[int, int]:
        """Format version of the file as (major, minor)."""
        return (self.file_major_version, self.file_minor_version)

    @property
    def is_legacy(self) -> bool:
        """True for files of 0.1, whose version the first releases did not store."""
        return self.file_major_version == 0 and self.file_minor_version < _FIRST_OF_2_0

    @property
    def storage_version(self) -> str:
        """Format version of the file in the notation of tables, such as "2.1"."""
        if self.is_legacy:
            return "0.1"
        major, minor = self.version
        return f"{major}.{minor}" if major else "2.0"

    @property
    def columns(self) -> dict[int, int]:
        """Physical column of the file for each field id.

        A legacy file has one column for each id, starting with its first field.

        Raises
        ------
        CorruptFileError
            The manifest lists fewer columns than fields; a field without one would read as nulls.
        """
        if self.is_legacy:
            first = min((id_ for id_ in self.fields if id_ >= 0), default=0)
            return {id_: id_ - first for id_ in self.fields if id_ >= 0}
        if len(self.column_indices) < len(self.fields):
            raise CorruptFileError(
                f"The manifest lists {len(self.fields)} fields of data file {self.path!r}, but "
                f"{len(self.column_indices)} column indices.",
                file=self.path,
            )
        pairs = zip(self.fields, self.column_indices, strict=False)
        return {id_: column for id_, column in pairs if column >= 0}

    @property
    def size_bytes(self) -> int:
        """Size of the file in bytes; 0 if it is unknown."""
        return self.file_size_bytes or 0

    def field_ids(self) -> list[int]:
        """Return the field ids, with the name of an earlier pylance method."""
        return list(self.fields)

    def to_json(self) -> dict[str, Any]:
        """Return pylance's JSON form as a dictionary."""
        return {
            "fields": list(self.fields),
            "column_indices": list(self.column_indices),
            "file_major_version": self.file_major_version,
            "file_minor_version": self.file_minor_version,
            "file_size_bytes": self.file_size_bytes,
            "base_id": self.base_id,
            "path": self.path,
        }


class DeletionKind(StrEnum):
    """Type of a deletion file, with pylance's names."""

    ARROW = "array"
    BITMAP = "bitmap"

    @property
    def suffix(self) -> str:
        """Suffix of the file name."""
        return ".bin" if self is DeletionKind.BITMAP else ".arrow"


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Deletion file: the complete set of a fragment's deleted row offsets."""

    read_version: int
    id: int
    file_type: DeletionKind
    num_deleted_rows: int = 0
    base_id: int | None = None
    unknown: bytes = field(default=b"", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "file_type", DeletionKind(self.file_type))
        except ValueError:
            listed = " or ".join(repr(kind.value) for kind in DeletionKind)
            raise InvalidArgumentError(
                f"The type of a deletion file must be {listed}, got {self.file_type!r}.",
                kind=self.file_type,
            ) from None

    def name(self, fragment_id: int) -> str:
        """Return the file's name relative to the dataset's root."""
        return f"{DELETIONS}/{fragment_id}-{self.read_version}-{self.id}{self.file_type.suffix}"

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Return the file's path.

        Parameters
        ----------
        fragment_id
            The id of the fragment whose rows are deleted.
        base_uri
            The dataset's root; by default the path is relative to it.

        Returns
        -------
        str
            The path or URI.

        Raises
        ------
        AttributeError
            ``base_uri`` is not text.

        Examples
        --------
        >>> DeletionFile(read_version=3, id=7, file_type="array").path(0, "s3://bucket/table")
        's3://bucket/table/_deletions/0-3-7.arrow'
        """
        name = self.name(fragment_id)
        return name if base_uri is None else f"{base_uri.rstrip('/')}/{name}"

    def asdict(self) -> dict[str, Any]:
        """Return pylance's JSON form as a dictionary."""
        return {
            "read_version": self.read_version,
            "id": self.id,
            "file_type": self.file_type.value,
            "num_deleted_rows": self.num_deleted_rows,
            "base_id": self.base_id,
        }

    def json(self) -> str:
        """Return pylance's JSON form as text."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(text: str) -> DeletionFile:
        """Parse the text that `json` returns, here or in pylance."""
        return from_text("DeletionFile", text, lambda values: DeletionFile(**values))


@dataclass(frozen=True, slots=True)
class _RowSequence:
    """Encoded sequence with a value for each row of a fragment."""

    key: ClassVar[str]
    #: pylance's JSON value for a sequence that is a column of a data file
    in_column: ClassVar[object]
    data: bytes

    def asdict(self) -> dict[str, list[int]]:
        """Return pylance's JSON form as a dictionary."""
        return {self.key: list(self.data)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Parse the dictionary that `asdict` returns, here or in pylance.

        Raises
        ------
        InvalidArgumentError
            The sequence is in a separate file, which no release writes.
        """
        if cls.key not in values:
            raise InvalidArgumentError(f"A sequence of rows must be inline, got {shown(values)}.")
        return cls(bytes(values[cls.key]))

    def json(self) -> str:
        """Return pylance's JSON form as text."""
        return json.dumps(self.asdict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `json` returns, here or in pylance."""
        return from_text(cls.__name__, text, cls.from_dict)


@dataclass(frozen=True, slots=True)
class RowIdMeta(_RowSequence):
    """Encoded stable row ids of a fragment."""

    key: ClassVar[str] = "Inline"
    in_column: ClassVar[object] = "Column"


@dataclass(frozen=True, slots=True)
class RowDatasetVersionMeta(_RowSequence):
    """Encoded versions in which each row was created, or last updated."""

    key: ClassVar[str] = "inline"
    in_column: ClassVar[object] = {"column": {}}


def data_file_from_pb(message: pb.DataFile) -> DataFile:
    """Decode the message of a data file."""
    return DataFile(
        path=message.path,
        fields=Items(message.fields),
        column_indices=Items(message.column_indices),
        file_major_version=message.file_major_version,
        file_minor_version=message.file_minor_version,
        file_size_bytes=message.file_size_bytes or None,
        base_id=message.base_id if message.HasField("base_id") else None,
        unknown=take_unknown(message),
    )


def data_file_to_pb(file: DataFile) -> pb.DataFile:
    """Encode a data file as a message."""
    message = pb.DataFile(
        path=file.path,
        fields=file.fields,
        column_indices=file.column_indices,
        file_major_version=file.file_major_version,
        file_minor_version=file.file_minor_version,
        file_size_bytes=file.size_bytes,
        base_id=file.base_id,
    )
    put_unknown(message, file.unknown)
    return message


def deletion_from_pb(message: pb.DeletionFile) -> DeletionFile:
    """Decode the message of a deletion file."""
    bitmap = message.file_type == pb.DeletionFile.BITMAP
    return DeletionFile(
        file_type=DeletionKind.BITMAP if bitmap else DeletionKind.ARROW,
        read_version=message.read_version,
        id=message.id,
        num_deleted_rows=message.num_deleted_rows,
        base_id=message.base_id if message.HasField("base_id") else None,
        unknown=take_unknown(message),
    )


def deletion_to_pb(file: DeletionFile) -> pb.DeletionFile:
    """Encode a deletion file as a message."""
    is_bitmap = file.file_type is DeletionKind.BITMAP
    message = pb.DeletionFile(
        file_type=pb.DeletionFile.BITMAP if is_bitmap else pb.DeletionFile.ARROW_ARRAY,
        read_version=file.read_version,
        id=file.id,
        num_deleted_rows=file.num_deleted_rows,
        base_id=file.base_id,
    )
    put_unknown(message, file.unknown)
    return message


# ---- data file format versions that can be requested

DEFAULT_VERSION = "2.2"

#: requested version -> format version
STORAGE_VERSIONS: Mapping[str, str] = {
    "stable": DEFAULT_VERSION,
    "2.0": "2.0",
    "2.1": "2.1",
    "2.2": "2.2",
}

#: names of the format before 2.0, whose files are only read
_LEGACY_VERSION = "0.1"
_LEGACY_NAMES = ("legacy", _LEGACY_VERSION)


def check_written(version: str) -> None:
    """Raise ``NotOfferedError`` for a version whose files are only read.

    Planners of new files call it early, so that no work is lost.
    """
    if version in _LEGACY_NAMES:
        raise NotOfferedError(
            "Data files of format 0.1 can be read, but not written.",
            hint="All files of a table have the same format. Rewrite its rows in a newer one: "
            'write_dataset(rows, uri, mode="overwrite", '
            f'data_storage_version="{DEFAULT_VERSION}").',
            data_storage_version=version,
        )


def check_storage_version(name: str, value: Any) -> str | None:
    """Return the format version of an argument, ``None`` for the dataset's own.

    Raises InvalidArgumentError: the version does not exist.
    Raises NotOfferedError: files of the version are not written.
    """
    if value is None:
        return None
    if isinstance(value, str):
        check_written(value)
    check_choice(name, value, STORAGE_VERSIONS)
    return STORAGE_VERSIONS[value]
