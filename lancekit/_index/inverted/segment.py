"""Opened segments of a full-text index.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lancekit._index.inverted.partition import StoredPartition
from lancekit._index.inverted.postings import BLOCKS, PACKED, TAILS, PostingForm
from lancekit._index.inverted.settings import AnalyzerSettings, parse_settings
from lancekit._index.inverted.token_set import FST, open_tokens
from lancekit._index.segment import IndexFileReader, Segment
from lancekit._legible import shown
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

_METADATA = "metadata.lance"
#: the defaults of older releases
_TOKENS, _TAIL = FST, "fixed32_v1"


@dataclass(frozen=True, eq=False)
class OpenSegment:
    """The tokenizer settings of a segment, and its partitions."""

    settings: AnalyzerSettings
    partitions: tuple[StoredPartition, ...]

    @property
    def has_positions(self) -> bool:
        """True if it has the positions of tokens, which phrases need."""
        return all(partition.has_positions for partition in self.partitions)


def open_segment(segment: Segment) -> OpenSegment:
    """Open a segment.

    Raises CorruptFileError, UnsupportedFeatureError, NotFoundError, OSError: one of its files is
        missing, damaged, or in an unknown form.
    """
    settings = parse_settings(*params_of(segment.file(_METADATA)))
    return OpenSegment(settings, open_partitions(segment))


def params_of(file: IndexFileReader) -> tuple[str, str]:
    """Return the tokenizer settings in the metadata file of an index, as JSON, and its location.

    Raises CorruptFileError: the settings are not a JSON object.
    """
    params = file.metadata.get("params", "{}")
    if not isinstance(_parsed(params), dict):
        raise CorruptFileError(f"{file.where} has unknown token settings {shown(params)}.")
    return params, file.where


def tokens_form(file: IndexFileReader) -> str:
    """Return the form of tokens in the files of an index, as stated in its metadata file."""
    return file.metadata.get("token_set_format", _TOKENS)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def open_partitions(
    segment: Segment, metadata: str = _METADATA, folder: str = ""
) -> tuple[StoredPartition, ...]:
    """Open the partitions of a segment, with any tokenizer settings.

    metadata, folder: the name of the metadata file, and its folder within the segment's folder.

    Raises CorruptFileError, UnsupportedFeatureError, NotFoundError, OSError: as `open_segment`.
    """
    file = segment.file(f"{folder}{metadata}")
    stated = file.metadata
    tail = stated.get("posting_tail_codec", _TAIL)
    block = stated.get("posting_block_size", str(PACKED))
    if tail not in TAILS or block not in map(str, BLOCKS):
        raise UnsupportedFeatureError(
            f"{file.where} has unknown posting lists: {shown(tail)} in blocks of {shown(block)}.",
            hint=f"Supported are {', '.join(TAILS)} in blocks of {' or '.join(map(str, BLOCKS))}.",
        )
    postings = PostingForm(tail, int(block))
    form = tokens_form(file)
    names = _partitions(stated.get("partitions", "[]"), file.where)
    return tuple(_open(segment, f"{folder}{name}", form, postings) for name in names)


def _partitions(text: str, where: str) -> list[str]:
    try:
        return [f"part_{int(number)}" for number in _parsed(text)]
    except (ValueError, TypeError) as error:
        raise CorruptFileError(f"{where} has an invalid partition list {shown(text)}.") from error


def _open(segment: Segment, name: str, form: str, postings: PostingForm) -> StoredPartition:
    tokens = segment.file(f"{name}_tokens.lance")
    return StoredPartition(
        token_set=open_tokens(tokens, form),
        tokens_file=tokens,
        postings_file=segment.file(f"{name}_invert.lance"),
        documents_file=segment.file(f"{name}_docs.lance"),
        form=postings,
    )
