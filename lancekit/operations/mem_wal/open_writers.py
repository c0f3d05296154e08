"""The open writers of this process, which can be flushed without being fenced."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

from lancekit.shards.shard import Shard

__all__ = ["OpenWriter", "remember_writer", "writers_of"]

LOGGER = logging.getLogger(__name__)


class OpenWriter(Protocol):
    """What is asked of a writer here."""

    process: int

    @property
    def shard(self) -> Shard:
        """The shard that it writes to."""

    @property
    def epoch(self) -> int:
        """The number of the claim that it writes under."""

    @property
    def state(self) -> str:
        """``"open"``, or why it takes no rows."""

    def flush(self) -> None:
        """Make a generation of all rows that were put before."""

    def write_waiting(self) -> None:
        """Return when all rows that were put before are in the log."""


_writers: WeakSet[OpenWriter] = WeakSet()


def remember_writer(writer: OpenWriter) -> None:
    """Add a writer, which leaves when it is closed or gone."""
    _writers.add(writer)


def _open_here() -> list[OpenWriter]:
    return [one for one in list(_writers) if one.state == "open" and one.process == os.getpid()]


def writers_of(shards: Iterable[Shard]) -> list[OpenWriter]:
    """Return the open writers of shards that this process has."""
    places = {shard.store.uri for shard in shards}
    return [one for one in _open_here() if one.shard.store.uri in places]


@atexit.register
def _write_what_waits() -> None:
    """Write the rows of puts that did not wait for the log; a killed process loses them."""
    for writer in _open_here():
        try:
            writer.write_waiting()
        except Exception:
            LOGGER.exception("rows were not written when Python ended")
