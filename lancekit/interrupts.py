"""What an interrupt leaves behind: which versions were there when somebody pressed stop.

An interrupt stays the ``KeyboardInterrupt`` that it is.  On its way out of a public function it
gets a note, which every traceback shows: what the call had committed by then.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from lancekit.display import render_failure
from lancekit.legible import clean

__all__ = ["PREFIX", "Attempt", "attempted", "explain", "mark"]

#: how the note begins
PREFIX = "lancekit: "
#: of so many attempts at most something is told
_KEPT = 64

_moments = count()
_attempts: deque[Attempt] = deque(maxlen=_KEPT)


class Attempt:
    """A version on its way into a table: whether it landed is not known yet.

    Parameters
    ----------
    version, uri, uuid
        Its number, whose it is, and the uuid of its transaction.
    look
        Looks whether it landed; asked only if the store's answer was not heard.
    """

    def __init__(self, version: int, uri: str, uuid: str, look: Callable[[], bool]) -> None:
        self.begun = mark()
        self.thread = threading.get_ident()
        self.version, self.uri, self.uuid = version, uri, uuid
        self._look: Callable[[], bool] | None = look
        self._landed: bool | None = None

    def settle(self, landed: bool | None) -> None:
        """Say what became of it; ``None`` if nobody can tell."""
        self._landed, self._look = landed, None

    def landed(self) -> bool | None:
        """Return whether it is in the table, ``None`` if that cannot be told."""
        if self._look is not None:
            try:
                self.settle(self._look())
            except (Exception, KeyboardInterrupt):  # pressed again, or the storage failed
                return None
        return self._landed


def attempted(version: int, uri: str, uuid: str, look: Callable[[], bool]) -> Attempt:
    """Note that a version is about to be put; see `Attempt`."""
    attempt = Attempt(version, uri, uuid, look)
    _attempts.append(attempt)
    return attempt


def mark() -> int:
    """Return the moment of now, for `explain`."""
    return next(_moments)


def explain(stop: KeyboardInterrupt, since: int) -> None:
    """Note on an interrupt what this thread committed since a moment.

    Callers further out, who began earlier, replace the note.
    """
    notes = [n for n in getattr(stop, "__notes__", ()) if not n.startswith(PREFIX + "before ")]
    here = threading.get_ident()
    made = [a for a in tuple(_attempts) if a.begun > since and a.thread == here]
    stop.__notes__ = [*notes, f"{PREFIX}before the interrupt {_told(made)}"]
    # what IPython asks in the place of making a traceback of its own
    told: Any = stop
    told._render_traceback_ = partial(render_failure, stop)


def _told(made: list[Attempt]) -> str:
    outcomes = [(attempt, attempt.landed()) for attempt in made]
    # of several versions of a table the newest
    landed = {attempt.uri: attempt.version for attempt, there in outcomes if there}
    parts = [f"version {version} of {clean(uri)} was committed" for uri, version in landed.items()]
    parts += [
        f"version {attempt.version} of {clean(attempt.uri)} was sent, and whether it landed is not "
        f"known (look for transaction {attempt.uuid})"
        for attempt, there in outcomes
        if there is None
    ]
    if not parts:
        return "nothing was committed: the newest version is the one that was there."
    return f"{'; '.join(parts)}. Nothing is half-written; ds.checkout_latest() shows what is there."
