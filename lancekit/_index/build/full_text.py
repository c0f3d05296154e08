"""Full-text indices: in which rows each token is, how often, and where.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._format.index import IndexMetadata, block_size_of, text_details, with_block_size
from lancekit._index.build.column import IndexedColumn, RowMap
from lancekit._index.build.files import NewFile, SegmentFile
from lancekit._index.build.read import OpenSegment, missing_files
from lancekit._index.build.text_partitions import (
    NewPartition,
    TextPartition,
    codec_of,
    joined,
    read_partitions,
)
from lancekit._index.inverted.analyzer import analyzer
from lancekit._index.inverted.postings import PACKED
from lancekit._index.inverted.segment import open_partitions, params_of, tokens_form
from lancekit._index.inverted.settings import AnalyzerSettings, parse_settings
from lancekit._index.inverted.token_set import ARROW, FST
from lancekit._index.inverted.whole import WholePartition
from lancekit._index.segment import Segment
from lancekit.errors import CorruptFileError, InvalidArgumentError

Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

#: where partitions are until they are put together, and what the files are called that tell of them
STAGING, _WHOLE, _PART = "staging/", "metadata.lance", "_metadata.lance"
#: what the reference says of settings that this release does not have
_BLOCKS = {"block_size": PACKED}
_OTHERS = {"lance_tokenizer": "text", **_BLOCKS}
#: what newer releases say, too, and older ones mean where they do not
_LATER = dict.fromkeys(
    ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators"), False
)


_METADATA = pa.schema([pa.field("deleted_fragments", pa.binary(), nullable=False)])


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TextRows:
    """What a full-text index holds.

    said: how its text becomes tokens, and whether it has their positions: JSON, as the index has
        it.
    details: what the manifest says of the index.
    partitions: its documents; those that came later are in others.
    tokens: how its files hold tokens, if these are not too many for that.
    """

    said: str
    details: bytes
    partitions: tuple[TextPartition, ...]
    tokens: str = FST

    @classmethod
    def build(cls, column: IndexedColumn, said: str, details: bytes) -> TextRows:
        """Collect the tokens of all rows.

        Raises UnsupportedFeatureError: stems or stop words of the language are not known, or such
            tokens are not made.
        """
        settings = parse_settings(said, "A full-text index")
        partition = _collected(column, settings, with_position=_has_positions(said))
        return cls(said=said, details=details, partitions=(NewPartition(partition),))

    @classmethod
    def merged(cls, parts: Sequence[TextRows]) -> TextRows:
        """Put together what several hold, whose text became tokens alike."""
        partitions = joined([p for part in parts for p in part.partitions])
        tokens = FST if any(part.tokens == FST for part in parts) else parts[0].tokens
        return replace(parts[0], partitions=partitions, tokens=tokens)

    @property
    def parameters(self) -> dict[str, object]:
        """What such an index is made with."""
        return {"said": self.said, "details": self.details}

    def beside(self, others: Iterable[OpenSegment]) -> TextRows:
        """Return the same as it is to be beside other segments of its index.

        The reference puts together only what holds tokens alike.
        """
        forms = {tokens_form(file) for other in others for file in other.files.values()}
        return replace(self, tokens=ARROW if ARROW in forms else FST)

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
        return replace(self, partitions=tuple(one.moved(row_map) for one in self.partitions))

    def files(self) -> Iterator[SegmentFile]:
        """Yield the files to write."""
        # one without documents is left out, unless there is no other
        filled = [one for one in self.partitions if len(one.rows)] or self.partitions[:1]
        tokens = self._tokens_written()
        for number, partition in enumerate(filled):
            yield from partition.files(number, tokens)
        yield self._metadata(_WHOLE, range(len(filled)), tokens)

    def staged(self, number: int) -> Iterator[SegmentFile]:
        """Yield the files of a partition that is to be put together with others.

        number: that no other of them has.
        """
        (partition,) = self.partitions
        tokens = self._tokens_written()
        for file in partition.files(number, tokens):
            yield replace(file, name=f"{STAGING}{file.name}")
        yield self._metadata(f"{STAGING}part_{number}{_PART}", [number], tokens)

    def _tokens_written(self) -> str:
        return self.tokens if all(one.fits_map for one in self.partitions) else ARROW

    def _metadata(self, name: str, partitions: Iterable[int], tokens: str) -> NewFile:
        said = {
            "partitions": json.dumps(list(partitions)),
            "params": self.said,
            "token_set_format": tokens,
        }
        codec = codec_of(with_position=_has_positions(self.said))
        batch = pa.record_batch([pa.array([BitMap().serialize()])], schema=_METADATA)
        return NewFile(name=name, schema=_METADATA, batches=[batch], metadata=said | codec)


def text_parameters(settings: AnalyzerSettings, *, with_position: bool) -> dict[str, object]:
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

    Raises UnsupportedFeatureError: stems or stop words of the language are not known, or such
        tokens are not made.
    """
    analyzer(parse_settings(said, "A full-text index"))
    return said


def _has_positions(said: str) -> bool:
    """Return whether an index that says this of itself tells where tokens are."""
    return bool(json.loads(said).get("with_position", False))


def read_staged(segment: Segment, names: Sequence[str]) -> TextRows:
    """Read the partitions of a segment that are still to be put together.

    names: of all files in the folder `STAGING`.

    Raises InvalidArgumentError: there is none, or they were not made alike.
    """
    parts = [
        TextRows(
            said=_in_our_blocks(params_of(segment.file(f"{STAGING}{name}"))[0]),
            details=b"",
            partitions=read_partitions(
                segment.file(f"{STAGING}{name}"), open_partitions(segment, name, STAGING)
            ),
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


def bare_text(found: OpenSegment) -> TextRows:
    """Return a full-text index of no rows, with the settings of another one."""
    (metadata,) = found.files.values()
    return TextRows(
        said=_in_our_blocks(params_of(metadata)[0]),
        details=with_block_size(found.details, PACKED),
        partitions=(),
        tokens=tokens_form(metadata),
    )


def read_text(found: OpenSegment) -> TextRows:
    """Read a full-text index."""
    (metadata,) = found.files.values()
    said, _ = params_of(metadata)
    try:
        opened = open_partitions(found.segment)
        partitions = read_partitions(metadata, opened)
    except FileNotFoundError as error:
        raise missing_files(found.segment) from error
    positions = _has_positions(said)
    if any(not one.has_positions for one in opened if positions):
        raise CorruptFileError(f"{metadata.where} lacks the positions of tokens.")
    return replace(bare_text(found), partitions=partitions)


def has_other_blocks(index: IndexMetadata) -> bool:
    """Return whether a segment cannot stay beside one that we write."""
    return block_size_of(index) not in (None, PACKED)


def _in_our_blocks(said: str) -> str:
    """Return what an index says of its settings, with the blocks that we write."""
    found = json.loads(said)
    return said if found.get("block_size", PACKED) == PACKED else json.dumps(found | _BLOCKS)


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
