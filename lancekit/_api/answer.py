"""`Answer`: what a call has done, for calls that return ``None`` in pylance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancekit._api.hinting import hinting_operators
from lancekit._display import Displayed
from lancekit._versions.snapshot import Snapshot


@hinting_operators("__getitem__")
@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Displayed):
    """Answer of a call that changed something: a card in notebooks, and one line as `repr`.

    The card is made when it is shown, from facts of the commit.  `call` is the name of the call,
    such as ``"insert"``.  The handle is at `version` of `branch` after the call (0 without one).
    """

    _in_line = True
    call: str
    version: int
    branch: str
    #: arguments of the call, and the handle's versions before and after it
    _given: Mapping[str, object] = field(default_factory=dict, compare=False)
    _moved: tuple[Snapshot, ...] = field(default=(), compare=False)

    def _plain(self) -> str:
        return f"{self.branch}:{self.version}: {self.call}()"


class ChangedSettings(dict[str, str]):
    """The settings after a change, as a dictionary; notebooks show the changed keys."""

    def __init__(self, values: Mapping[str, str], done: Answer) -> None:
        super().__init__(values)
        self._done = done

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return self._done._repr_mimebundle_(include, exclude)


def answer(call: str, before: Snapshot, after: Snapshot, **given: object) -> Answer:
    """Return the answer of a call that found a handle at one version, and left it at another."""
    branch, moved = after.location.name, (before, after)
    return Answer(call=call, version=after.version, branch=branch, _given=given, _moved=moved)
