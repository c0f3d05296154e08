"""A change that is not committed yet; and changes that land once, however often they are tried."""

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
    """The entry that tells where rows are which moved, and that in whose place it is put."""

    new: IndexMetadata
    old: IndexMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An operation on its way into a version.

    `affected_rows` holds, for each fragment, the offsets of the rows that the operation deletes
    or moves.  It never reaches the wire; with it, two writers that changed different rows of one
    fragment can both land.  By its `uuid` a writer recognises its own commit.

    An update or a merge with `next_row_id` takes rows over as they are, with their ids and the
    versions that its fragments record of them: the ids below that number are given out; `covers`
    has the fragments that indices cover then.  A merge with `moves_rows` brings rows, too, deletes
    rows, and leaves fragments out; it must be committed strictly.  A rewrite with `reuse` leaves
    indices as they are, and says there where rows are now.  `bases` are base paths that come with
    the change.

    `doing` is what the user called, where the operation's name does not say it.  With a `mark` it
    lands at most once; `implied` are marks of other series whose changes it brings along, put
    unless a later one is there.  `based_on` is a prefix of config keys that the change was worked
    out from: if another writer changed one of them, it has to be worked out again.
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
        """Return the marks to put on top of a version of this config, as entries of it."""
        marks = [mark for mark in self.implied if not mark.has_landed(config)]
        if self.mark is not None:
            marks.append(self.mark)
        return {mark.key: mark.text for mark in marks}

    def is_based_on(self, read: Mapping[str, str], latest: Mapping[str, str]) -> bool:
        """Return True if all config keys that matter are as they were read."""
        prefix = self.based_on
        if prefix is None:
            return True
        one, other = (
            {key: text for key, text in config.items() if key.startswith(prefix)}
            for config in (read, latest)
        )
        return one == other

    def transaction(self, read_version: int) -> Transaction:
        """Return what is stored of the change, based on a version."""
        return Transaction(
            read_version=read_version,
            uuid=self.uuid,
            operation=self.operation,
            transaction_properties=self.properties,
        )


# ---- A change that lands once, however often it is tried
#
# The mark is an entry of the table's config, put by the very version that holds the change: there
# is no moment at which one is there without the other, and each later version carries the entry on,
# whoever writes it and whatever is cleaned up.  A restore of an older version takes both back.


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMarker:
    """One of a series of changes, which are numbered upward.

    key: the key of the config under which the newest number of the series is kept.
    number: this change's number.
    origin: what gives the numbers out, if it is known: another one counts anew.
    """

    key: str
    number: int
    origin: str = ""

    @property
    def text(self) -> str:
        """The entry's value."""
        return f"{self.number} {self.origin}".rstrip()

    def newest(self, config: Mapping[str, str]) -> BatchMarker | None:
        """Return the newest change of the series that a version knows of."""
        text = config.get(self.key)
        if text is None:
            return None
        number, _, origin = text.partition(" ")
        if not number.isdecimal():
            raise FormatError(
                f"The table's config has {text!r} under {self.key!r}, which is not a number.",
                hint="Set it to the number of the last change, or delete it.",
            )
        return BatchMarker(key=self.key, number=int(number), origin=origin)

    def has_landed(self, config: Mapping[str, str]) -> bool:
        """Return whether a version holds this change, or a later one of the series."""
        newest = self.newest(config)
        return newest is not None and newest.number >= self.number

    def check_first(self, config: Mapping[str, str], version: int) -> None:
        """Raise ``IncompatibleConflictError`` if a version holds the change already."""
        if self.has_landed(config):
            raise IncompatibleConflictError(
                f"Change {self.number} of {self.key!r} has landed already, by version {version}.",
                hint="Another process made it at the same time: nothing is left to do.",
                version=version,
                number=self.number,
            )
