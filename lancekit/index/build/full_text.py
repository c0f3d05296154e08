"""Full-text indices: in which rows each token is, how often, and where.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit.errors import CorruptFileError, InvalidArgumentError
from lancekit.format.index import text_details
from lancekit.index.build.column import IndexedColumn, RowMap
from lancekit.index.build.files import NewFile
from lancekit.index.build.posting_blocks import position_blocks, posting_blocks
from lancekit.index.build.read import OpenSegment, missing_files
from lancekit.index.inverted.analyzer import analyzer
from lancekit.index.inverted.bm25 import Statistics, weights
from lancekit.index.inverted.packed import PACKED
from lancekit.index.inverted.segment import open_partitions, params_of
from lancekit.index.inverted.settings import AnalyzerSettings, parse_settings
from lancekit.index.inverted.whole import WholePartition, read_whole
from lancekit.index.segment import Segment

__all__ = ["STAGING", "TextRows", "checked_said", "read_staged", "read_text", "text_parameters"]

Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

#: where partitions are until they are put together, and what the files are called that tell of them
STAGING, _WHOLE, _PART = "staging/", "metadata.lance", "_metadata.lance"
_CODEC = {
    "posting_tail_codec": "varint_delta_v1",
    "format_version": "2",
    "posting_block_size": str(PACKED),
}
_POSITIONS = {"positions_layout": "shared_stream_v2", "positions_codec": "packed_delta_v1"}
#: what the reference says of settings that this release does not have
_OTHERS = {"lance_tokenizer": "text", "block_size": PACKED}
#: what newer releases say, too, and older ones mean where they do not
_LATER = dict.fromkeys(
    ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators"), False
)


def _fields(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, False) for name, kind in kinds.items()])


_BLOCKS = pa.list_(pa.field("item", pa.large_binary(), False))
_METADATA = _fields(deleted_fragments=pa.binary())
_TOKENS = _fields(_token=pa.string(), _token_id=pa.uint32())
_DOCUMENTS = _fields(_rowid=pa.uint64(), _num_tokens=pa.uint32())
_POSTINGS = _fields(_posting=_BLOCKS, _max_score=pa.float32(), _length=pa.uint32())
_PLACES = _fields(
    _compressed_position=pa.large_binary(),
    _position_block_offset=pa.list_(pa.field("item", pa.uint32(), False)),
)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TextRows:
    """What a full-text index holds.

    Attributes
    ----------
    said
        How its text becomes tokens, and whether it has their positions: JSON, as the index has it.
    details
        What the manifest says of the index.
    partitions
        Its documents; those that came later are in others.
    """

    said: str
    details: bytes
    partitions: tuple[WholePartition, ...]

    @classmethod
    def build(cls, column: IndexedColumn, said: str, details: bytes) -> TextRows:
        """Collect the tokens of all rows.

        Raises
        ------
        UnsupportedFeatureError
            Stems or stop words of the language are not known, or such tokens are not made.
        """
        settings = parse_settings(said, "A full-text index")
        partition = _collected(column, settings, with_position=_has_positions(said))
        return cls(said=said, details=details, partitions=(partition,))

    @classmethod
    def merged(cls, parts: Sequence[TextRows]) -> TextRows:
        """Put together what several hold, whose text became tokens alike."""
        return replace(parts[0], partitions=tuple(p for part in parts for p in part.partitions))

    @property
    def parameters(self) -> dict[str, Any]:
        """What such an index is made with."""
        return {"said": self.said, "details": self.details}

    def is_like(self, other: TextRows) -> bool:
        """Return whether both can be put together."""
        mine, theirs = (
            {
                **_LATER,
                **{
                    name: value for name, value in json.loads(one.said).items() if value is not None
                },
            }
            for one in (self, other)
        )
        return mine == theirs

    def moved(self, row_map: RowMap) -> TextRows:
        """Return the same for rows that are elsewhere now, or gone."""
        moved = []
        for partition in self.partitions:
            rows, kept = row_map(partition.rows)
            moved.append(replace(partition, rows=rows).among(kept))
        return replace(self, partitions=tuple(moved))

    def files(self) -> Iterator[NewFile]:
        """Yield the files to write."""
        # one without documents is left out, unless there is no other
        filled = [one for one in self.partitions if len(one.rows)] or self.partitions[:1]
        for number, partition in enumerate(filled):
            yield from _Written(partition).files(number, self._codec)
        yield self._metadata(_WHOLE, range(len(filled)))

    def staged(self, number: int) -> Iterator[NewFile]:
        """Yield the files of a partition that is to be put together with others.

        Parameters
        ----------
        number
            That no other of them has.
        """
        (partition,) = self.partitions
        for file in _Written(partition).files(number, self._codec):
            yield replace(file, name=f"{STAGING}{file.name}")
        yield self._metadata(f"{STAGING}part_{number}{_PART}", [number])

    @property
    def _codec(self) -> dict[str, str]:
        return _CODEC | (_POSITIONS if _has_positions(self.said) else {})

    def _metadata(self, name: str, partitions: Iterable[int]) -> NewFile:
        said = {
            "partitions": json.dumps(list(partitions)),
            "params": self.said,
            "token_set_format": "arrow",
        }
        return _file(name, _METADATA, [[BitMap().serialize()]], said | self._codec)


def text_parameters(settings: AnalyzerSettings, *, with_position: bool) -> dict[str, Any]:
    """Return what an index with these settings is made with."""
    said = asdict(settings)
    # words that the user gives stand in the files alone
    details = {name: value for name, value in said.items() if name != "custom_stop_words"}
    return {
        "said": json.dumps({**said, "with_position": with_position, **_OTHERS}),
        "details": text_details(with_position=with_position, **details),
    }


def checked_said(_name: str, said: str) -> str:
    """Return what an index says of its settings if such tokens can be made.

    Raises
    ------
    UnsupportedFeatureError
        Stems or stop words of the language are not known, or such tokens are not made.
    """
    analyzer(parse_settings(said, "A full-text index"))
    return said


def _has_positions(said: str) -> bool:
    """Return whether an index that says this of itself tells where tokens are."""
    return bool(json.loads(said).get("with_position", False))


def read_staged(segment: Segment, names: Sequence[str]) -> TextRows:
    """Read the partitions of a segment that are still to be put together.

    Parameters
    ----------
    names
        Of all files in the folder `STAGING`.

    Raises
    ------
    InvalidArgumentError
        There is none, or they were not made alike.
    """
    parts = [
        TextRows(
            said=params_of(segment.file(f"{STAGING}{name}"))[0],
            details=b"",
            partitions=tuple(map(read_whole, open_partitions(segment, name, STAGING))),
        )
        for name in sorted(names)
        if name.endswith(_PART)
    ]
    if not parts or not all(parts[0].is_like(part) for part in parts):
        told = "were not made with the same settings" if parts else "are not there"
        raise InvalidArgumentError(
            f"The parts of the index {segment.index.uuid} {told}.",
            hint="Make them by create_scalar_index(column, 'INVERTED', fragment_ids=[...], "
            "index_uuid=...), of each fragment with the same arguments.",
            argument="index_uuid",
        )
    return TextRows.merged(parts)


def read_text(found: OpenSegment) -> TextRows:
    """Read a full-text index."""
    (metadata,) = found.files.values()
    said, _ = params_of(metadata)
    try:
        opened = open_partitions(found.segment)
        partitions = tuple(map(read_whole, opened))
    except FileNotFoundError as error:
        raise missing_files(found.segment) from error
    positions = _has_positions(said)
    if any(one.positions is None for one in partitions if positions):
        raise CorruptFileError(f"{metadata.where} lacks the positions of tokens.")
    return TextRows(said=said, details=found.details, partitions=partitions)


def _collected(
    column: IndexedColumn, settings: AnalyzerSettings, *, with_position: bool
) -> WholePartition:
    table = analyzer(settings).table(column.values)
    lengths = np.bincount(table.texts, minlength=len(column.rows)).astype(np.uint32)
    filled = lengths > 0  # a row without tokens is no document
    documents = (np.cumsum(filled) - 1)[table.texts]
    order = np.argsort(table.codes, kind="stable")
    codes, docs = table.codes[order], documents[order]
    new = np.append(True, (codes[1:] != codes[:-1]) | (docs[1:] != docs[:-1]))
    firsts = np.flatnonzero(new[: len(codes)])
    return WholePartition(
        rows=column.rows[filled],
        lengths=lengths[filled],
        tokens=list(table.vocabulary),
        ends=np.cumsum(np.bincount(codes[firsts], minlength=len(table.vocabulary))),
        docs=docs[firsts].astype(np.uint32),
        counts=np.diff(np.append(firsts, len(codes))).astype(np.uint32),
        positions=table.positions[order].astype(np.uint32) if with_position else None,
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Written:
    """A partition as its files hold it."""

    held: WholePartition

    def files(self, number: int, codec: Mapping[str, str]) -> Iterator[NewFile]:
        """Yield the files."""
        held = self.held
        ascending = sorted(zip(held.tokens, range(len(held.tokens)), strict=True))
        tokens, numbers = zip(*ascending, strict=True) if ascending else ((), ())
        yield _file(f"part_{number}_tokens.lance", _TOKENS, [tokens, numbers])
        total = {"total_tokens": str(int(held.lengths.sum(dtype=np.int64)))}
        documents = [held.rows, held.lengths]
        yield _file(f"part_{number}_docs.lance", _DOCUMENTS, documents, total)
        sizes = (held.ends - held.starts).astype(np.uint32)
        schema, columns = _POSTINGS, [*posting_blocks(held, self._scores()), sizes]
        if held.positions is not None:
            schema = pa.schema([*schema, *_PLACES])
            columns += position_blocks(held, held.positions)
        yield _file(f"part_{number}_invert.lance", schema, columns, codec)

    def _scores(self) -> npt.NDArray[np.float32]:
        """Return the score of each token in each of its documents, among these documents."""
        held = self.held
        sizes = held.ends - held.starts
        known = Statistics(
            len(held.rows),
            int(held.lengths.sum(dtype=np.int64)),
            dict(zip(held.tokens, sizes.tolist(), strict=True)),
        )
        rarities = np.array([known.rarity(token) for token in held.tokens], np.float32)
        return weights(rarities, 1).repeat(sizes) * known.shares(
            held.counts, held.lengths[held.docs]
        )


def _file(
    name: str, schema: pa.Schema, columns: list[Any], metadata: Mapping[str, str] | None = None
) -> NewFile:
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for one, field in zip(columns, schema, strict=True)
    ]
    batch = pa.record_batch(arrays, schema=schema)
    return NewFile(name=name, schema=schema, batches=[batch], metadata=metadata or {})
