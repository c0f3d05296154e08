"""Manifests: one file per version, with the whole state of the dataset.

See docs/format/table.md, 2.1 and 3.2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain

from google.protobuf.timestamp_pb2 import Timestamp

from lancekit._format import flags
from lancekit._format.dictionaries import StoredValues, put_dictionaries, read_dictionaries
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.fragment import FragmentList
from lancekit._format.fragment_columns import Totals
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.schema import LanceSchema, schema_from_pb, schema_to_pb
from lancekit._format.unknown_fields import parse, put_unknown, take_unknown
from lancekit._legible import discreet_repr, shown
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError, type_name

FOOTER_BYTES = 16
_FOOTER = struct.Struct("<qHH4s")
_MAGIC = b"LANC"
_LENGTH = struct.Struct("<I")
_WITHOUT_BLOB_V2 = frozenset({"2.0", "2.1"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND = int(datetime.min.replace(tzinfo=UTC).timestamp())
_LAST_SECOND = int(datetime.max.replace(tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class BasePath:
    """Additional base path for a dataset's files; a new one gets its id when it is added."""

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int = 0

    def __post_init__(self) -> None:
        given: object = self.id
        if given is None:  # pylance's value for a new base path
            object.__setattr__(self, "id", 0)
        elif not isinstance(given, int) or not 0 <= given < 2**32:
            raise InvalidArgumentError(
                f"The id of a base path must be an integer below 2**32, got {shown(given)}.",
                hint="Leave it out, or pass an integer below 2**32.",
                id=given,
            )
        texts: list[object] = [self.path, "" if self.name is None else self.name]
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise InvalidTypeError(
                f"The path and name of a base path must be text, got {shown(wrong[0])} of type "
                f"{type_name(wrong[0])}."
            )

    __repr__ = discreet_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterVersion:
    """Library that committed a version."""

    library: str
    version: str
    prerelease: str | None = None
    build_metadata: str | None = None

    def __str__(self) -> str:
        return f"{self.library} {self.version}" + (f"-{self.prerelease}" if self.prerelease else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a dataset.

    `inline_transaction` and `index_section` are offsets in the file that the manifest was read
    from; the encoder recomputes them.  `timestamp_ns` counts from the epoch, UTC.  `dictionaries`
    are values that 0.1 tables keep in manifests, by field id.
    """

    schema: LanceSchema
    fragments: FragmentList
    version: int
    timestamp_ns: int = 0
    reader_flags: int = 0
    writer_flags: int = 0
    max_fragment_id: int | None = None
    transaction_file: str = ""
    writer: WriterVersion | None = None
    next_row_id: int = 0
    storage_version: str = "2.0"
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    base_paths: tuple[BasePath, ...] = ()
    branch: str | None = None
    index_section: int | None = None
    inline_transaction: int | None = None
    dictionaries: Mapping[int, StoredValues] = field(default_factory=dict)
    unknown: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fragments", FragmentList.of(self.fragments))

    @property
    def timestamp(self) -> datetime:
        """Time of the commit, with time zone UTC."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1000)

    @property
    def num_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.totals().rows

    def totals(self) -> Totals:
        """Return the sums over all fragments."""
        return self.fragments.totals()

    @property
    def has_stable_row_ids(self) -> bool:
        """True if row ids survive updates and compaction."""
        return bool(self.reader_flags & flags.STABLE_ROW_IDS)

    @property
    def has_mixed_files(self) -> bool:
        """True if data files may have other 2.x versions than `storage_version`."""
        return bool((self.reader_flags | self.writer_flags) & flags.MIXED_FILE_VERSIONS)

    @property
    def has_managed_blobs(self) -> bool:
        """True if blobs may be stored in objects that outlive the data file of their row."""
        return bool((self.reader_flags | self.writer_flags) & flags.MANAGED_BLOBS)

    @property
    def new_file_version(self) -> str:
        """Format of new data files: `storage_version`, or 2.2 if that cannot store a column.

        An append of 2.2 files to a 2.1 table turns blob v1 columns of the schema into blob v2
        columns.  It does not change `storage_version`.
        """
        if not self.has_mixed_files or self.storage_version not in _WITHOUT_BLOB_V2:
            return self.storage_version
        v2 = any(is_blob_v2(field.metadata) for field in self.schema.walk())
        return "2.2" if v2 else self.storage_version

    def max_field_id(self) -> int:
        """Return the highest field id that is or was in use, or -1 without fields.

        Files keep the values of a dropped field under its id.
        """
        stored = (id_ for part in self.fragments for file in part.files for id_ in file.fields)
        return max(chain(stored, (field.id for field in self.schema.walk())), default=-1)

    def base_path(self, base_id: int) -> BasePath:
        """Return a base path by id; raise ``CorruptFileError`` if the manifest does not list it."""
        for base in self.base_paths:
            if base.id == base_id:
                return base
        raise CorruptFileError(
            f"Version {self.version} refers to base path {base_id}, which it does not list.",
            base_id=base_id,
            version=self.version,
        )


def manifest_position(tail: bytes, where: str) -> int:
    """Return the manifest's offset in its file, from the last bytes of the file.

    Raises CorruptFileError: the file is too short, or does not end with the magic bytes.
    """
    hint = "The file is truncated or damaged; open an earlier version, or restore it from a copy."
    if len(tail) < FOOTER_BYTES:
        raise CorruptFileError(
            f"Manifest {where} has {len(tail)} bytes, too few for a footer.", hint=hint, file=where
        )
    position, _major, _minor, magic = _FOOTER.unpack(tail[-FOOTER_BYTES:])
    if magic != _MAGIC:
        raise CorruptFileError(
            f"Manifest {where} does not end in the magic bytes LANC.", hint=hint, file=where
        )
    return int(position)


def read_section(data: memoryview, offset: int, where: str) -> memoryview:
    """Return the length-prefixed section at ``offset`` of a manifest file."""
    if offset >= 0 and offset + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, offset)
        start = offset + _LENGTH.size
        if start + length <= len(data):
            return data[start : start + length]
    raise CorruptFileError(
        f"Manifest {where} points outside of itself, at offset {offset} of {len(data)} bytes.",
        hint="The file is truncated or damaged; open an earlier version.",
        file=where,
    )


def parse_manifest(data: memoryview, where: str, whole: Callable[[], memoryview]) -> Manifest:
    """Decode the `Manifest` message of a version.

    data, where: the message, and the name of its file.
    whole: returns all bytes of the file; called only if they are needed.

    Raises CorruptFileError: the bytes are not a manifest.
    Raises UnsupportedFeatureError: a reader feature flag is unknown.
    """
    message = parse(pb.Manifest, data, f"manifest {where}")
    flags.check_readable(message.reader_feature_flags, where)

    def present(name: str) -> bool:
        return bool(message.HasField(name))

    inline = (
        message.transaction_section_new
        if present("transaction_section_new")
        else message.transaction_section
        if present("transaction_section")
        else None
    )
    fragments = FragmentList(message.fragments)
    version = _storage_version(message, fragments)
    return Manifest(
        schema=schema_from_pb(message.fields, message.schema_metadata),
        fragments=fragments,
        version=message.version,
        timestamp_ns=_timestamp(message.timestamp, where),
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        max_fragment_id=(
            message.max_fragment_id
            if present("max_fragment_id")
            else (int(fragments.ids.max()) if fragments else None)  # 0.19.x omitted zero
        ),
        transaction_file=message.transaction_file,
        writer=_writer_from_pb(message.writer_version) if present("writer_version") else None,
        next_row_id=message.next_row_id,
        storage_version=version,
        config=dict(message.config),
        table_metadata=dict(message.table_metadata),
        base_paths=tuple(map(base_path_from_pb, message.base_paths)),
        branch=message.branch if present("branch") else None,
        index_section=message.index_section if present("index_section") else None,
        inline_transaction=inline,
        dictionaries=read_dictionaries(message.fields, whole, where) if version == "0.1" else {},
        unknown=take_unknown(message),
    )


def _timestamp(stored: Timestamp, where: str) -> int:
    """Return nanoseconds since the epoch; a date outside of the calendar is damage."""
    if not (_FIRST_SECOND <= stored.seconds < _LAST_SECOND and 0 <= stored.nanos < 10**9):
        raise CorruptFileError(
            f"Manifest {where} is damaged: timestamp {stored.seconds} s is outside years 1 to "
            "9999.",
            file=where,
        )
    return int(stored.seconds) * 10**9 + int(stored.nanos)


def encode_manifest_file(
    manifest: Manifest, *, index_section: bytes | None = None, transaction: bytes | None = None
) -> bytes:
    """Return a manifest file: dictionaries, index section, transaction, manifest, footer.

    Raises CorruptFileError: a counter does not fit, because it was damaged or is used up.
    Raises UnsupportedFeatureError: the values of a 0.1 dictionary are not known.
    """
    out = bytearray()

    def section(data: bytes | None) -> int | None:
        if data is None:
            return None
        offset = len(out)
        out.extend(_LENGTH.pack(len(data)))
        out.extend(data)
        return offset

    try:
        message = _manifest_to_pb(manifest)
    except ValueError as error:
        raise CorruptFileError(
            f"Version {manifest.version} cannot be written, a counter is exhausted: {error}.",
            hint="Unless the table is very old, its latest manifest is damaged: restore an "
            "earlier version, or write the rows to a new table.",
            version=manifest.version,
        ) from error
    if manifest.storage_version == "0.1":
        put_dictionaries(out, message.fields, manifest.dictionaries)
    if (offset := section(index_section)) is not None:
        message.index_section = offset
    if (offset := section(transaction)) is not None:
        message.transaction_section = offset
    position = section(message.SerializeToString())
    out.extend(_FOOTER.pack(position, 0, 2, _MAGIC))
    return bytes(out)


def _manifest_to_pb(manifest: Manifest) -> pb.Manifest:
    seconds, nanos = divmod(manifest.timestamp_ns, 10**9)
    writer = manifest.writer
    message = pb.Manifest(
        fields=schema_to_pb(manifest.schema),
        fragments=manifest.fragments.encoded,
        version=manifest.version,
        schema_metadata={k: v.encode() for k, v in manifest.schema.metadata.items()},
        reader_feature_flags=manifest.reader_flags,
        writer_feature_flags=manifest.writer_flags,
        max_fragment_id=manifest.max_fragment_id,
        transaction_file=manifest.transaction_file,
        next_row_id=manifest.next_row_id,
        data_format=pb.DataStorageFormat(file_format="lance", version=manifest.storage_version),
        config=manifest.config,
        base_paths=map(base_path_to_pb, manifest.base_paths),
        table_metadata=manifest.table_metadata,
        branch=manifest.branch,
        timestamp=Timestamp(seconds=seconds, nanos=nanos),
        writer_version=pb.WriterVersion(**asdict(writer)) if writer else None,
    )
    put_unknown(message, manifest.unknown)
    return message


def _writer_from_pb(message: pb.WriterVersion) -> WriterVersion:
    return WriterVersion(
        library=message.library,
        version=message.version,
        prerelease=message.prerelease if message.HasField("prerelease") else None,
        build_metadata=message.build_metadata if message.HasField("build_metadata") else None,
    )


def base_path_from_pb(message: pb.BasePath) -> BasePath:
    """Decode the message of a base path."""
    return BasePath(
        id=message.id,
        path=message.path,
        is_dataset_root=message.is_dataset_root,
        name=message.name if message.HasField("name") else None,
    )


def base_path_to_pb(base: BasePath) -> pb.BasePath:
    """Encode a base path as a message."""
    return pb.BasePath(
        id=base.id, path=base.path, is_dataset_root=base.is_dataset_root, name=base.name
    )


def _storage_version(message: pb.Manifest, fragments: FragmentList) -> str:
    if message.HasField("data_format"):
        return str(message.data_format.version)
    # old manifests lack the version; their data files have it
    for fragment in fragments:
        for file in fragment.files:
            return file.storage_version
    return "2.0" if message.reader_feature_flags & flags.V2_FILES else "0.1"
