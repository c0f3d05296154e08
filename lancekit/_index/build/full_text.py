"""Building of full-text indices: the rows, counts and positions of each token.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
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

#: the folder of partitions that are not merged yet, and the names of their metadata files
STAGING, _WHOLE, _PART = "staging/", "metadata.lance", "_metadata.lance"
#: values that the reference writes for settings that lancekit does not have
_BLOCKS = {"block_size": PACKED}
_OTHERS = {"lance_tokenizer": "text", **_BLOCKS}
#: settings of newer releases, with their value in older ones
_LATER = dict.fromkeys(
    ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators"), False
)

_METADATA = pa.schema([pa.field("deleted_fragments", pa.binary(), nullable=False)])


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TextRows:
    """The content of a full-text index.

    params: the tokenizer settings, and whether there are positions, as JSON from the index.
    details: the details of the index for the manifest.
    partitions: its documents; documents that are added later are in new partitions.
    tokens: the preferred form of tokens in its files; columns are written for too many tokens.
    """

    params: str
    details: bytes
    partitions: tuple[TextPartition, ...]
    tokens: str = FST

    @classmethod
    def build(cls, column: IndexedColumn, params: str, details: bytes) -> TextRows:
        """Collect the tokens of all rows.

        Raises UnsupportedFeatureError: the language's stems or stop words, or the tokenizer, are
            not supported.
        """
        settings = parse_settings(params, "A full-text index")
        partition = _collected(column, settings, with_position=_has_positions(params))
        return cls(params=params, details=details, partitions=(NewPartition(partition),))

    @classmethod
    def merged(cls, parts: Sequence[TextRows]) -> TextRows:
        """Merge several segments with the same tokenizer settings."""
        partitions = joined([p for part in parts for p in part.partitions])
        tokens = FST if any(part.tokens == FST for part in parts) else parts[0].tokens
        return replace(parts[0], partitions=partitions, tokens=tokens)

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that it was built with."""
        return {"params": self.params, "details": self.details}

    def in_form_of(self, others: Iterable[OpenSegment]) -> TextRows:
        """Return the content with tokens in the same form as the other segments of its index.

        The reference only merges segments with the same form of tokens.
        """
        forms = {tokens_form(file) for other in others for file in other.files.values()}
        return replace(self, tokens=ARROW if ARROW in forms else FST)

    def is_mergeable_with(self, other: TextRows) -> bool:
        """Return True if both can be merged."""
        mine, theirs = (
            {
                **_LATER,
                **{
                    name: value
                    for name, value in json.loads(one.params).items()
                    if value is not None
                },
            }
            for one in (self, other)
        )
        return mine == theirs

    def moved(self, row_map: RowMap) -> TextRows:
        """Return the content with new row addresses, without rows that no longer exist."""
        return replace(self, partitions=tuple(one.moved(row_map) for one in self.partitions))

    def files(self) -> Iterator[SegmentFile]:
        """Yield the files to write."""
        # empty partitions are left out, unless all are empty
        filled = [one for one in self.partitions if len(one.rows)] or self.partitions[:1]
        tokens = self._tokens_written()
        for number, partition in enumerate(filled):
            yield from partition.files(number, tokens)
        yield self._metadata(_WHOLE, range(len(filled)), tokens)

    def staged(self, number: int) -> Iterator[SegmentFile]:
        """Yield the files of a partition that is to be merged with others.

        number: the number of the partition, unique among the partitions to merge.
        """
        (partition,) = self.partitions
        tokens = self._tokens_written()
        for file in partition.files(number, tokens):
            yield replace(file, name=f"{STAGING}{file.name}")
        yield self._metadata(f"{STAGING}part_{number}{_PART}", [number], tokens)

    def _tokens_written(self) -> str:
        return self.tokens if all(one.fits_map for one in self.partitions) else ARROW

    def _metadata(self, name: str, partitions: Iterable[int], tokens: str) -> NewFile:
        params = {
            "partitions": json.dumps(list(partitions)),
            "params": self.params,
            "token_set_format": tokens,
        }
        codec = codec_of(with_position=_has_positions(self.params))
        batch = pa.record_batch([pa.array([BitMap().serialize()])], schema=_METADATA)
        return NewFile(name=name, schema=_METADATA, batches=[batch], metadata=params | codec)


def text_parameters(settings: AnalyzerSettings, *, with_position: bool) -> dict[str, object]:
    """Return the parameters that an index with these settings is built with."""
    params = asdict(settings)
    # the manifest does not record custom stop words, only the files do
    details = {name: value for name, value in params.items() if name != "custom_stop_words"}
    return {
        "params": json.dumps({**params, "with_position": with_position, **_OTHERS}),
        "details": text_details(with_position=with_position, **details),
    }


def checked_params(_name: str, params: str) -> str:
    """Return the settings of an index if its tokenizer is supported.

    Raises UnsupportedFeatureError: the language's stems or stop words, or the tokenizer, are not
        supported.
    """
    analyzer(parse_settings(params, "A full-text index"))
    return params


def _has_positions(params: str) -> bool:
    """Return True if an index with these settings has the positions of tokens."""
    return bool(json.loads(params).get("with_position", False))


def read_staged(segment: Segment, names: Sequence[str]) -> TextRows:
    """Read and merge the partitions in a segment's staging folder.

    names: the names of all files in the folder.

    Raises InvalidArgumentError: there are no partitions, or their settings differ.
    """
    parts = [
        TextRows(
            params=_in_our_blocks(params_of(segment.file(f"{STAGING}{name}"))[0]),
            details=b"",
            partitions=read_partitions(
                segment.file(f"{STAGING}{name}"), open_partitions(segment, name, STAGING)
            ),
        )
        for name in sorted(names)
        if name.endswith(_PART)
    ]
    if not parts or not all(parts[0].is_mergeable_with(part) for part in parts):
        problem = "were built with different settings" if parts else "are missing"
        raise InvalidArgumentError(
            f"The parts of the index {segment.index.uuid} {problem}.",
            hint="Create them with create_scalar_index(column, 'INVERTED', fragment_ids=[...], "
            "index_uuid=...), with the same arguments for each fragment.",
            argument="index_uuid",
        )
    return TextRows.merged(parts)


def bare_text(found: OpenSegment) -> TextRows:
    """Return an empty full-text index with the settings of another one."""
    (metadata,) = found.files.values()
    return TextRows(
        params=_in_our_blocks(params_of(metadata)[0]),
        details=with_block_size(found.details, PACKED),
        partitions=(),
        tokens=tokens_form(metadata),
    )


def read_text(found: OpenSegment) -> TextRows:
    """Read a full-text index."""
    (metadata,) = found.files.values()
    params, _ = params_of(metadata)
    try:
        opened = open_partitions(found.segment)
        partitions = read_partitions(metadata, opened)
    except FileNotFoundError as error:
        raise missing_files(found.segment) from error
    positions = _has_positions(params)
    if any(not one.has_positions for one in opened if positions):
        raise CorruptFileError(f"{metadata.where} lacks the positions of tokens.")
    return replace(bare_text(found), partitions=partitions)


def has_other_blocks(index: IndexMetadata) -> bool:
    """Return True if a segment has a block size that lancekit does not write.

    Such a segment cannot be in one index with a segment that lancekit writes.
    """
    return block_size_of(index) not in (None, PACKED)


def _in_our_blocks(params: str) -> str:
    """Return the settings of an index, with the block size that lancekit writes."""
    found = json.loads(params)
    return params if found.get("block_size", PACKED) == PACKED else json.dumps(found | _BLOCKS)


def _collected(
    column: IndexedColumn, settings: AnalyzerSettings, *, with_position: bool
) -> WholePartition:
    """Return the documents of a column: their tokens, counts and positions."""
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
