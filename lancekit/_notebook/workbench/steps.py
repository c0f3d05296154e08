"""What a workbench goes through: choices are previewed, a preview is applied, that is taken back.

A state and what happened, which is a method of it, give the next state.  What is chosen (rules of
a merge, sides of conflicts), plans and results are not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar


class Result(Protocol):
    """What is said of a result: the version it made, and that which it was done on."""

    @property
    def version(self) -> int: ...
    @property
    def read_version(self) -> int: ...


C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R", bound=Result)

#: *waiting* for somebody to ask for a preview, *looking* at what would happen, *ready* to apply
#: what is shown, *failed* to make a preview or to apply it, and what is done after that
Phase = Literal["waiting", "looking", "ready", "failed", "applying", "done", "undoing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Generic[C, P, R]):
    """Where a workbench is; what does not fit that changes nothing.

    chosen: what was clicked.
    phase: what is being done, or can be.
    on_demand: whether previews are made only when somebody asks.
    plan: the newest preview; of other choices while a newer one is made.
    result: what was applied last, and not taken back.
    error: what went wrong last.
    notice: a line on what happened.
    page: which part of a long list is shown.
    """

    chosen: C
    phase: Phase = "looking"
    on_demand: bool = False
    plan: P | None = None
    result: R | None = None
    error: Exception | None = None
    notice: str = ""
    page: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether the dataset is being changed, so that nothing else can be asked for."""
        return self.phase in {"applying", "undoing"}

    @property
    def can_apply(self) -> bool:
        """Whether what is shown is a preview of what is chosen."""
        return self.phase == "ready"

    @property
    def can_undo(self) -> bool:
        """Whether there is a result to be taken back."""
        return self.result is not None and not self.is_busy

    def choose(self, chosen: C) -> State[C, P, R]:
        """Choose something else."""
        if self.is_busy or chosen == self.chosen:
            return self
        return replace(self, chosen=chosen, phase=self._first, error=None, notice="")

    def look(self) -> State[C, P, R]:
        """Ask for a preview."""
        return self if self.is_busy else replace(self, phase="looking", error=None, notice="")

    def turn(self, page: int) -> State[C, P, R]:
        """Turn to a page."""
        return replace(self, page=max(page, 0))

    def said(self, notice: str) -> State[C, P, R]:
        """Say something that asks for no work."""
        return replace(self, notice=notice)

    def previewed(self, chosen: C, plan: P) -> State[C, P, R]:
        """Take the preview of what was chosen."""
        if self.phase != "looking" or chosen != self.chosen:
            return self
        return replace(self, phase="ready", plan=plan, error=None)

    def failed(self, chosen: C, error: Exception) -> State[C, P, R]:
        """Note why there is no preview of what was chosen."""
        if self.phase != "looking" or chosen != self.chosen:
            return self
        return replace(self, phase="failed", plan=None, error=error)

    def apply(self) -> State[C, P, R]:
        """Ask for what is shown to be done."""
        return replace(self, phase="applying", notice="") if self.can_apply else self

    def moved(self, plan: P, notice: str) -> State[C, P, R]:
        """Take a newer preview, since others wrote; it has to be seen before it is applied."""
        return replace(self, phase="ready", plan=plan, notice=notice)

    def applied(self, result: R, notice: str = "") -> State[C, P, R]:
        """Take the result."""
        return replace(self, phase="done", plan=None, result=result, error=None, notice=notice)

    def undo(self) -> State[C, P, R]:
        """Ask for the result to be taken back."""
        return replace(self, phase="undoing", error=None, notice="") if self.can_undo else self

    def undone(self, notice: str) -> State[C, P, R]:
        """Note that the result is taken back."""
        return replace(self, phase=self._first, plan=None, result=None, notice=notice)

    def refused(self, error: Exception) -> State[C, P, R]:
        """Note why it was not applied, or not taken back."""
        phase: Phase = "done" if self.phase == "undoing" else "failed"
        return replace(self, phase=phase, plan=None, error=error)

    @property
    def _first(self) -> Phase:
        """The phase in which something new is chosen."""
        return "waiting" if self.on_demand else "looking"


#: what happened: a method of a state, with its arguments
Event: TypeAlias = Callable[[State[C, P, R]], State[C, P, R]]
