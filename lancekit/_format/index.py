"""Index metadata in the index section of a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from google.protobuf.message import Message
from pyroaring import BitMap

from lancekit._format import _codecs as c
from lancekit._format._codecs import Codec, Part, decode, encode, wire
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

#: system index that maps row addresses from before a compaction to addresses after it
FRAGMENT_REUSE = "__lance_frag_reuse"


class IndexDetails(NamedTuple):
    """Type URL of an index, and its encoded parameters."""

    type_url: str
    value: bytes = b""


def zone_map_details(rows_per_zone: int) -> bytes:
    """Encode the parameters of a zone map with a set of null rows."""
    return pb.ZoneMapIndexDetails(
        rows_per_zone=rows_per_zone, use_seeds=False, has_null_bitmap=True
    ).SerializeToString()


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSettings:
    """Parameters of a vector index.

    label: ``"IVF_FLAT"``, ``"IVF_PQ"`` or ``"IVF_SQ"``.
    metric: distance metric.
    partition_rows: approximate number of rows in a partition, or ``None`` if not specified.
    parts, bits: for codes: number of sub-vectors, and bits of each sub-vector's code.
    """

    label: str = "IVF_FLAT"
    metric: str = "l2"
    partition_rows: int | None = None
    parts: int = 0
    bits: int = 8


def vector_details(settings: VectorSettings) -> bytes:
    """Encode the parameters of a vector index as in manifests."""
    message = pb.VectorIndexDetails(
        metric_type=settings.metric.upper(), target_partition_size=settings.partition_rows or 0
    )
    if settings.label == "IVF_PQ":
        message.pq.num_bits, message.pq.num_sub_vectors = settings.bits, settings.parts
    elif settings.label == "IVF_SQ":
        message.sq.num_bits = settings.bits
    else:
        message.flat.SetInParent()
    return message.SerializeToString()


def parse_vector_details(data: bytes, where: str) -> VectorSettings:
    """Decode the parameters that `vector_details` encodes.

    Raises UnsupportedFeatureError: the index has another type.
    """
    message = parse(pb.VectorIndexDetails, data, where)
    kind = message.WhichOneof("compression")
    if kind not in ("flat", "pq", "sq") or message.HasField("hnsw"):
        raise UnsupportedFeatureError(f"{where} are of an unknown vector index.")
    return VectorSettings(
        label=f"IVF_{kind.upper()}",
        metric=_METRICS.get(message.metric_type, "l2"),
        partition_rows=message.target_partition_size or None,
        parts=message.pq.num_sub_vectors,
        bits=message.pq.num_bits or 8,
    )


def text_details(*, language: str, **settings: Any) -> bytes:
    """Encode the parameters of a full-text index; arguments have the message's field names."""
    return pb.InvertedIndexDetails(language=json.dumps(language), **settings).SerializeToString()


def block_size_of(index: IndexMetadata) -> int | None:
    """Return the number of documents in a block of a full-text index, if its details have it.

    Raises CorruptFileError: the details are damaged.
    """
    details = index.index_details
    if details is None or not details.type_url.endswith("InvertedIndexDetails"):
        return None
    found = parse(pb.InvertedIndexDetails, details.value, "The details of an index")
    return found.block_size or None


def with_block_size(details: bytes, documents: int) -> bytes:
    """Set the block size in the parameters of a full-text index whose details have one.

    Raises CorruptFileError: the details are damaged.
    """
    found = parse(pb.InvertedIndexDetails, details, "The details of an index")
    if found.HasField("block_size"):
        found.block_size = documents
    return found.SerializeToString()


def _get_details(message: Message, name: str) -> IndexDetails | None:
    if not message.HasField(name):
        return None
    details = getattr(message, name)
    return IndexDetails(details.type_url, details.value)


def _put_details(message: object, name: str, details: IndexDetails | None) -> None:
    if details is not None:
        stored = getattr(message, name)
        stored.SetInParent()
        stored.type_url, stored.value = details.type_url, details.value


def _accept_details(value: object, what: str) -> IndexDetails | None:
    if value is None or isinstance(value, IndexDetails):
        return value
    if isinstance(value, tuple):  # pylance passes a pair
        return IndexDetails(*value)
    raise c.wrong_type(value, what, "IndexDetails or None")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(milliseconds=1)


def _get_time(message: Message, name: str) -> datetime | None:
    if not message.HasField(name):
        return None
    stored: int = getattr(message, name)
    try:
        return _EPOCH + stored * _TICK
    except OverflowError as error:
        raise CorruptFileError(f"{name} has timestamp {stored} ms, out of range.") from error


def _put_time(message: object, name: str, time: datetime | None) -> None:
    if time is not None:
        setattr(message, name, (time - _EPOCH) // _TICK)


def _accept_time(value: object, what: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None or value < _EPOCH:
        raise c.wrong_type(value, what, "a time with a time zone, after 1970")
    return value


MAYBE_TIME = Codec(_get_time, _put_time, _accept_time)
DETAILS = Codec(_get_details, _put_details, _accept_details)


@dataclass(frozen=True, slots=True)
class IndexFile(Part):
    """One file of an index segment; `path` is relative to the segment's folder."""

    path: str = wire(c.TEXT)
    size_bytes: int = wire(c.whole(), default=0)


INDEX_FILES = c.parts(IndexFile)

_METRICS = {number: name.lower() for name, number in pb.VectorIndexDetails.MetricType.items()}


@dataclass(frozen=True, slots=True)
class IndexMetadata(Part):
    """One segment of an index; several segments of one index share its name.

    `fragment_ids` are the indexed fragments, including removed ones, or ``None`` if unknown.
    `created_at` is in UTC, in whole milliseconds.
    """

    uuid: UUID = wire(c.UUIDS)
    name: str = wire(c.TEXT)
    fields: tuple[int, ...] = wire(c.wholes(32, signed=True), default=())
    dataset_version: int = wire(c.whole(), default=0)
    fragment_ids: BitMap | None = wire(c.MAYBE_BITMAP, name="fragment_bitmap", default=None)
    index_version: int | None = wire(c.maybe_whole(32, signed=True), default=None)
    created_at: datetime | None = wire(MAYBE_TIME, default=None)
    base_id: int | None = wire(c.maybe_whole(32), default=None)
    files: tuple[IndexFile, ...] = wire(INDEX_FILES, default=())
    index_details: IndexDetails | None = wire(DETAILS, default=None)
    covering_fields: tuple[int, ...] = wire(c.wholes(32, signed=True), default=())

    @property
    def is_system(self) -> bool:
        """True for indices that the table format itself owns (fragment reuse, MemWAL)."""
        return self.name.startswith("__lance_")

    @property
    def type_url(self) -> str:
        """Type URL of the index; empty in manifests of old releases."""
        return self.index_details.type_url if self.index_details else ""

    @property
    def metric(self) -> str | None:
        """Distance metric of a vector index; ``None`` for others, and if it is not stored."""
        details = self._vector_details()
        return None if details is None else _METRICS.get(details.metric_type)

    def _vector_details(self) -> pb.VectorIndexDetails | None:
        if self.index_details is None or not self.index_details.value:
            return None
        if not self.type_url.endswith(".VectorIndexDetails"):
            return None
        where = f"details of index {self.name!r}"
        return parse(pb.VectorIndexDetails, self.index_details.value, where)

    @property
    def kind(self) -> str:
        """Index type with pylance's name, such as ``"IVF_PQ"``; ``"Unknown"`` if not stored."""
        kind = self.type_url.rpartition(".")[2].removesuffix("IndexDetails") or "Unknown"
        details = self._vector_details()
        if details is None:
            return kind
        graph = "HNSW_" if details.HasField("hnsw") else ""
        compression = details.WhichOneof("compression")
        return f"IVF_{graph}{compression.upper()}" if compression else kind

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of a vector or full-text index, with pylance's names; empty for others.

        Raises
        ------
        CorruptFileError
            The details cannot be parsed.
        """
        vectors = self._vector_details()
        if vectors is not None:
            return _vector_parameters(vectors)
        if self.type_url.endswith(".InvertedIndexDetails") and self.index_details is not None:
            where = f"details of index {self.name!r}"
            return _text_parameters(parse(pb.InvertedIndexDetails, self.index_details.value, where))
        return {}


def _vector_parameters(message: pb.VectorIndexDetails) -> dict[str, object]:
    found: dict[str, Any] = {"metric_type": message.MetricType.Name(message.metric_type)}
    if message.target_partition_size:
        found["target_partition_size"] = message.target_partition_size
    if message.HasField("hnsw"):
        graph = message.hnsw
        found["hnsw"] = {
            "max_connections": graph.max_connections,
            "construction_ef": graph.construction_ef,
            **({"max_level": graph.max_level} if graph.max_level else {}),
        }
    kind = message.WhichOneof("compression")
    if kind not in (None, "flat"):
        found["compression"] = {"type": kind, **_by_name(getattr(message, kind))}
    if kind == "rq":
        found["compression"]["rotation_type"] = (
            "matrix" if message.rq.rotation_type == 1 else "fast"
        )
    if message.runtime_hints:
        found["runtime_hints"] = dict(message.runtime_hints)
    return found


def _by_name(message: Message) -> dict[str, object]:
    return {part.name: getattr(message, part.name) for part in message.DESCRIPTOR.fields}


#: values for full-text details that are empty
_TEXT_DEFAULTS = pb.InvertedIndexDetails(
    base_tokenizer="simple",
    language='"English"',
    max_token_length=40,
    lower_case=True,
    stem=True,
    remove_stop_words=True,
    ascii_folding=True,
    min_ngram_length=3,
    max_ngram_length=3,
    block_size=128,
)


def _text_parameters(message: pb.InvertedIndexDetails) -> dict[str, object]:
    if not message.ByteSize():
        message = _TEXT_DEFAULTS
    try:
        language = json.loads(message.language)
    except ValueError:
        language = message.language
    granularity = "list_element" if message.document_granularity == 1 else "row"
    known = {
        **_by_name(message),
        "lance_tokenizer": None,  # not stored in the details, as are the stop words
        "custom_stop_words": None,
        "language": language,
        "max_token_length": message.max_token_length or None,
        "block_size": message.block_size or _TEXT_DEFAULTS.block_size,
        "document_granularity": granularity,
        **_by_name(message.code),
    }
    return {name: value for name, value in known.items() if name not in ("code", "format_version")}


def index_from_pb(message: pb.IndexMetadata) -> IndexMetadata:
    """Decode the message of an index segment."""
    return decode(IndexMetadata, message)


def index_to_pb(index: IndexMetadata) -> pb.IndexMetadata:
    """Encode an index segment as a message."""
    message = pb.IndexMetadata()
    encode(index, message)
    return message


def parse_index_section(data: bytes, where: str) -> tuple[IndexMetadata, ...]:
    """Decode the index section of a manifest."""
    section = parse(pb.IndexSection, data, f"index section of {where}")
    return tuple(map(index_from_pb, section.indices))


def fragment_reuse_of(indices: Iterable[IndexMetadata]) -> IndexMetadata | None:
    """Return the entry of the fragment reuse index, or ``None``."""
    return next((index for index in indices if index.name == FRAGMENT_REUSE), None)


def encode_index_section(indices: Iterable[IndexMetadata]) -> bytes:
    """Encode the index section of a manifest."""
    return pb.IndexSection(indices=map(index_to_pb, indices)).SerializeToString()
