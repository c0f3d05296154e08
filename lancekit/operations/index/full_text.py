"""Make a full-text index of a column."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from lancekit.commit.protocol import check_writable
from lancekit.format.index import IndexDetails, IndexMetadata, text_details
from lancekit.index.build.full_text import TextRows
from lancekit.index.inverted.analyzer import analyzer
from lancekit.index.inverted.settings import AnalyzerSettings
from lancekit.index.kinds import INVERTED
from lancekit.operations.common.retry import RetryPolicy, retried
from lancekit.operations.index.create import check_name, commit_segments, default_name
from lancekit.operations.index.segments import IndexedField, indexed_field, new_segment, read_column
from lancekit.versions.snapshot import Snapshot

__all__ = ["TextIndexRequest", "create_text_index"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextIndexRequest:
    """A full-text index that is to be made; `with_position` lets phrases be found by it."""

    column: str
    name: str | None = None
    settings: AnalyzerSettings = field(default_factory=AnalyzerSettings)
    with_position: bool = False
    replace: bool = True
    train: bool = True
    uuid: UUID | None = None


def create_text_index(
    snapshot: Snapshot, request: TextIndexRequest, policy: RetryPolicy
) -> Snapshot:
    """Make an index; return the version that has it.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidTypeError
        It holds no text.
    UnsupportedFeatureError
        Stems or stop words of the language are not known.
    IndexExistsError
        Another index has the name, or this one is not to be replaced.
    """
    analyzer(request.settings)  # what is not known is told before anything is read

    def attempt(current: Snapshot) -> Snapshot:
        check_writable(current)
        column = indexed_field(current, request.column, INVERTED)
        name = request.name
        if name is None:
            name = default_name(current, column, INVERTED)
        check_name(current, column, name, replace=request.replace)
        segment = _segment(current, column, name, request)
        return commit_segments(current, name, [segment])

    return retried(snapshot, attempt, policy)[0]


def _segment(
    snapshot: Snapshot, column: IndexedField, name: str, request: TextIndexRequest
) -> IndexMetadata:
    ids = [int(id_) for id_ in snapshot.manifest.fragments.ids] if request.train else []
    addresses = not snapshot.manifest.has_stable_row_ids
    rows = read_column(snapshot, column, ids, addresses=addresses)
    settings, with_position = request.settings, request.with_position
    content = TextRows.build(rows, settings, with_position=with_position)
    details = text_details(
        base_tokenizer=settings.base_tokenizer,
        language=settings.language,
        with_position=with_position,
        max_token_length=settings.max_token_length,
        lower_case=settings.lower_case,
        stem=settings.stem,
        remove_stop_words=settings.remove_stop_words,
        ascii_folding=settings.ascii_folding,
    )
    return new_segment(
        snapshot,
        column,
        name,
        content.files(),
        ids,
        index_version=INVERTED.written,
        details=IndexDetails(INVERTED.type_url, details),
        uuid=request.uuid,
    )
