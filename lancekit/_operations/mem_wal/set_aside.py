"""What a repair of write-ahead logs reports: files that were moved aside, and lost rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from lancekit._display import Displayed
from lancekit._format.mem_wal.names import LOGS
from lancekit._legible import cut, plural

__all__ = ["MemWalRepair", "SetAside"]

#: how much of the keys of lost rows a report shows
_KEYS, _KEY_CHARACTERS = 5, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A part of a write-ahead log that cannot be used where it was.

    Attributes
    ----------
    shard_id
        The shard; ``None`` of a table of the quarantine.
    position, last_position
        The place of an entry in the log; of several missing entries beside each other the first
        place and the last one.
    generation
        The number of a generation; of an entry with rows of a lost generation, its number.
    manifest
        The version of a manifest of the shard.
    quarantine
        The id of a table of the quarantine.
    file
        The URI of the file or folder that has the bytes now; ``None`` if there were none.
    reason
        What was wrong.
    rows
        How many rows no read has any more, 0 if the repair kept all rows; ``None`` if nobody knows.
    keys
        The primary keys of these rows, as far as they can be read.
    read_by
        An expression that reads what is left of the rows; empty if nothing is, or nothing is lost.
    """

    shard_id: str | None
    position: int | None = None
    last_position: int | None = None
    generation: int | None = None
    manifest: int | None = None
    quarantine: str | None = None
    file: str | None
    reason: str
    rows: int | None = None
    keys: pa.Table | None = field(default=None, compare=False, repr=False)
    read_by: str = ""

    @property
    def called(self) -> str:
        """What was set aside, as a phrase."""
        if self.last_position not in (None, self.position):
            return f"entries {self.position} to {self.last_position}"
        parts = {
            "entry": self.position,
            "generation": self.generation,
            "manifest": self.manifest,
            "quarantine": self.quarantine,
        }
        named = [f"{name} {value}" for name, value in parts.items() if value is not None]
        return named[0] if named else "all files"

    @property
    def path(self) -> str:
        """The file or folder with the bytes, below the table; empty if there is none."""
        if self.file is None:
            return ""
        return f"{LOGS}/{self.file.rpartition(f'/{LOGS}/')[2]}"

    @property
    def lost(self) -> str:
        """What is lost, as a phrase."""
        if self.position is not None and self.generation is not None:
            return f"rows of generation {self.generation}"
        if self.rows == 0:
            return "no row is lost"
        if self.rows is None:
            return "nobody knows which rows it had" if self.keys is None else f"lost{self._keys}"
        return f"{plural(self.rows, 'row')} lost{self._keys}"

    @property
    def words(self) -> str:
        """Where the bytes are, what is lost, and what reads the rest, as a phrase."""
        missing = f"missing in shard {self.shard_id}" if self.shard_id else "missing"
        read = f"; {self.read_by} reads what is left" if self.read_by else ""
        return f"{self.path or missing}: {self.lost}{read}"

    @property
    def _keys(self) -> str:
        if self.keys is None or not self.keys.num_rows:
            return ""
        some = self.keys.slice(0, _KEYS)
        first = dict(zip(some.column_names, (one.to_pylist() for one in some.columns), strict=True))
        more = ", ..." if self.keys.num_rows > _KEYS else ""
        shown = "; ".join(f"{name} {', '.join(map(repr, of))}{more}" for name, of in first.items())
        return f" ({cut(shown, _KEY_CHARACTERS)})"


class MemWalRepair(Displayed, list[SetAside]):
    """What a repair of write-ahead logs set aside: a list with a card."""

    def _plain(self) -> str:
        return "\n".join([self.title, *(f"{one.called}: {one.words}" for one in self)])

    @property
    def title(self) -> str:
        """How many parts were set aside, and how many rows are lost, as a phrase."""
        if not self:
            return "no damage"
        known = sum(one.rows or 0 for one in self)
        unknown = any(one.rows is None for one in self)
        lost = f"{'at least ' if unknown else ''}{plural(known, 'row')} lost"
        if not known:
            lost = "rows may be lost" if unknown else "no row is lost"
        return f"{plural(len(self), 'part')} of write-ahead logs set aside, {lost}"
