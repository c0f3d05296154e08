"""State machine of a workbench: choices are previewed, a preview is applied, its result undone.

Each event is a method of the state, and returns the next state.  The machine does not inspect
choices (rules of a merge, sides of conflicts), plans or results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar


class Result(Protocol):
    """A result with the version that it committed, and the version that it read."""

    @property
    def version(self) -> int: ...
    @property
    def read_version(self) -> int: ...


C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R", bound=Result)

#: *waiting* for a request, *previewing*: making a preview, *ready* to apply it, *failed* to make or
#: to apply it, *applying* it, *done*: applied, and *undoing* the result
Phase = Literal["waiting", "previewing", "ready", "failed", "applying", "done", "undoing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Generic[C, P, R]):
    """The state of a workbench; an event that does not fit its phase returns the same state.

    choices: the choices.
    phase: the current activity, or the possible next one.
    on_demand: True if previews are made only on request.
    plan: the newest preview; while a newer one is made, the preview of earlier choices.
    result: the last applied result that was not undone.
    error: the last error.
    notice: a line about the last event.
    page: the shown page of a long list.
    """

    choices: C
    phase: Phase = "previewing"
    on_demand: bool = False
    plan: P | None = None
    result: R | None = None
    error: Exception | None = None
    notice: str = ""
    page: int = 0

    @property
    def is_busy(self) -> bool:
        """True while the dataset is being changed, when other events are ignored."""
        return self.phase in {"applying", "undoing"}

    @property
    def can_apply(self) -> bool:
        """True if the shown plan is the preview of the current choices."""
        return self.phase == "ready"

    @property
    def can_undo(self) -> bool:
        """True if there is a result to undo."""
        return self.result is not None and not self.is_busy

    def choose(self, choices: C) -> State[C, P, R]:
        """Replace the choices."""
        if self.is_busy or choices == self.choices:
            return self
        return replace(self, choices=choices, phase=self._first, error=None, notice="")

    def request_preview(self) -> State[C, P, R]:
        """Request a preview."""
        return self if self.is_busy else replace(self, phase="previewing", error=None, notice="")

    def turn(self, page: int) -> State[C, P, R]:
        """Show another page."""
        return replace(self, page=max(page, 0))

    def with_notice(self, notice: str) -> State[C, P, R]:
        """Show a notice; the phase stays."""
        return replace(self, notice=notice)

    def previewed(self, choices: C, plan: P) -> State[C, P, R]:
        """Store the preview of some choices, unless they have changed."""
        if self.phase != "previewing" or choices != self.choices:
            return self
        return replace(self, phase="ready", plan=plan, error=None)

    def failed(self, choices: C, error: Exception) -> State[C, P, R]:
        """Store the error of a preview of some choices, unless they have changed."""
        if self.phase != "previewing" or choices != self.choices:
            return self
        return replace(self, phase="failed", plan=None, error=error)

    def apply(self) -> State[C, P, R]:
        """Request that the shown plan is applied."""
        return replace(self, phase="applying", notice="") if self.can_apply else self

    def outdated(self, plan: P, notice: str) -> State[C, P, R]:
        """Store a newer preview after others committed; the user must see it before applying."""
        return replace(self, phase="ready", plan=plan, notice=notice)

    def applied(self, result: R, notice: str = "") -> State[C, P, R]:
        """Store the result of an applied plan."""
        return replace(self, phase="done", plan=None, result=result, error=None, notice=notice)

    def undo(self) -> State[C, P, R]:
        """Request that the result is undone."""
        return replace(self, phase="undoing", error=None, notice="") if self.can_undo else self

    def undone(self, notice: str) -> State[C, P, R]:
        """Remove the result after it was undone."""
        return replace(self, phase=self._first, plan=None, result=None, notice=notice)

    def refused(self, error: Exception) -> State[C, P, R]:
        """Store the error of applying a plan or of undoing a result."""
        phase: Phase = "done" if self.phase == "undoing" else "failed"
        return replace(self, phase=phase, plan=None, error=error)

    @property
    def _first(self) -> Phase:
        """The phase after a change of choices."""
        return "waiting" if self.on_demand else "previewing"


#: an event: a method of a state, with its arguments
Event: TypeAlias = Callable[[State[C, P, R]], State[C, P, R]]
