"""Pending changes, and markers of changes that must land at most once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from pyroaring import BitMap

from lancekit._format.index import IndexMetadata
from lancekit._format.manifest import BasePath
from lancekit._format.operations import Operation
from lancekit._format.transaction import Transaction
from lancekit.errors import FormatError, IncompatibleConflictError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseEntry:
    """The fragment-reuse entry with the new addresses of moved rows, and the entry it replaces."""

    new: IndexMetadata
    old: IndexMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An operation that is not committed yet.

    `affected_rows` has, for each fragment, the offsets of the rows that the operation deletes or
    moves.  It is never stored.  With it, two writers that changed different rows of one fragment
    can both land.  By its `uuid`, a writer recognises its own commit.

    A fast-forward takes over the rows of its source with their ids and versions: `next_row_id` is
    the source's next row id, and `covers` has the fragments that each index covers there.  A merge
    with `moves_rows` may bring rows, delete rows, and omit fragments; it must be committed
    strictly.  A rewrite with `reuse` records the new row addresses in that entry instead of
    remapping indices.  `bases` are base paths to add.

    `doing` is the name of the user's call, if the operation's name differs.  A change with a `mark`
    lands at most once.  `implied` are marks of other series whose changes this one includes; a mark
    is recorded unless a later one exists.  If another writer changes a config key with the prefix
    `based_on`, the change must be made again.
    """

    operation: Operation
    uuid: str = field(default_factory=lambda: str(uuid4()))
    affected_rows: Mapping[int, BitMap] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    doing: str = ""
    mark: BatchMarker | None = None
    implied: tuple[BatchMarker, ...] = ()
    based_on: str | None = None
    next_row_id: int | None = None
    moves_rows: bool = False
    covers: Mapping[UUID, BitMap] | None = None
    reuse: ReuseEntry | None = None
    bases: tuple[BasePath, ...] = ()

    def marks_upon(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the marks to add to a version with this config, as config entries."""
        marks = [mark for mark in self.implied if not mark.has_landed(config)]
        if self.mark is not None:
            marks.append(self.mark)
        return {mark.key: mark.text for mark in marks}

    def is_based_on(self, read: Mapping[str, str], latest: Mapping[str, str]) -> bool:
        """Return True if the config keys that the change depends on are unchanged."""
        prefix = self.based_on
        if prefix is None:
            return True
        one, other = (
            {key: text for key, text in config.items() if key.startswith(prefix)}
            for config in (read, latest)
        )
        return one == other

    def transaction(self, read_version: int) -> Transaction:
        """Return the stored form of the change, based on a version."""
        return Transaction(
            read_version=read_version,
            uuid=self.uuid,
            operation=self.operation,
            transaction_properties=self.properties,
        )


# ---- Changes that land at most once, however often they are tried
#
# The mark is an entry of the table's config, put by the very version with the change.  So neither
# ever exists without the other, and each later version keeps the entry, whoever writes it and
# whatever is cleaned up.  A restore of an older version removes both.


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMarker:
    """Number of a change in a series of ascending numbers, such as the batches of a stream.

    key: the config key of the series; its value has the newest number that landed.
    number: this change's number.
    origin: the source that numbers the changes, if known; another source starts again.
    """

    key: str
    number: int
    origin: str = ""

    @property
    def text(self) -> str:
        """The value of the config entry."""
        return f"{self.number} {self.origin}".rstrip()

    def newest(self, config: Mapping[str, str]) -> BatchMarker | None:
        """Return the newest change of the series in a version's config."""
        text = config.get(self.key)
        if text is None:
            return None
        number, _, origin = text.partition(" ")
        if not number.isdecimal():
            raise FormatError(
                f"{self.key!r} in the table's config must be a number, got {text!r}.",
                hint="Set it to the number of the last change, or delete it.",
            )
        return BatchMarker(key=self.key, number=int(number), origin=origin)

    def has_landed(self, config: Mapping[str, str]) -> bool:
        """Return True if a version has this change, or a later one of the series."""
        newest = self.newest(config)
        return newest is not None and newest.number >= self.number

    def check_first(self, config: Mapping[str, str], version: int) -> None:
        """Raise ``IncompatibleConflictError`` if a version has the change already."""
        if self.has_landed(config):
            raise IncompatibleConflictError(
                f"Change {self.number} of {self.key!r} was committed by version {version}.",
                hint="Another process committed it at the same time. No action is needed.",
                version=version,
                number=self.number,
            )
