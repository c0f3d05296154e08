"""What a workbench goes through: choices are previewed, a preview is applied, that is taken back.

It is one pure function, `step`: a state and what happened give the next state.  What is chosen
(rules of a merge, sides of conflicts), plans and results are not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar


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
    """Where a workbench is.

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


@dataclass(frozen=True, slots=True)
class Choose(Generic[C]):
    """Somebody chose something else."""

    chosen: C


@dataclass(frozen=True, slots=True)
class Look:
    """Somebody asked for a preview."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Somebody turned the page."""

    page: int


@dataclass(frozen=True, slots=True)
class Said:
    """There is something to be said, and nothing to be done."""

    notice: str


@dataclass(frozen=True, slots=True)
class Previewed(Generic[C, P]):
    """A preview of what was chosen is there."""

    chosen: C
    plan: P


@dataclass(frozen=True, slots=True)
class Failed(Generic[C]):
    """A preview of what was chosen could not be made."""

    chosen: C
    error: Exception


@dataclass(frozen=True, slots=True)
class Apply:
    """Somebody wants what is shown."""


@dataclass(frozen=True, slots=True)
class Moved(Generic[P]):
    """Others wrote since the preview; the new one has to be seen before it is applied."""

    plan: P
    notice: str


@dataclass(frozen=True, slots=True)
class Applied(Generic[R]):
    """It is done."""

    result: R
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Undo:
    """Somebody wants the result taken back."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The result is taken back."""

    notice: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It could not be applied, or not be taken back."""

    error: Exception


Event: TypeAlias = (
    Choose[C]
    | Look
    | Said
    | Turn
    | Previewed[C, P]
    | Failed[C]
    | Apply
    | Moved[P]
    | Applied[R]
    | Undo
    | Undone
    | Refused
)


def step(state: State[C, P, R], event: Event[C, P, R]) -> State[C, P, R]:
    """Return what comes of an event; one that does not fit the state changes nothing."""
    return _STEPS[type(event)](state, event)


def _choose(state: State[C, P, R], event: Choose[C]) -> State[C, P, R]:
    if state.is_busy or event.chosen == state.chosen:
        return state
    phase: Phase = "waiting" if state.on_demand else "looking"
    return replace(state, chosen=event.chosen, phase=phase, error=None, notice="")


def _look(state: State[C, P, R], _: Look) -> State[C, P, R]:
    return state if state.is_busy else replace(state, phase="looking", error=None, notice="")


def _previewed(state: State[C, P, R], event: Previewed[C, P]) -> State[C, P, R]:
    if state.phase != "looking" or event.chosen != state.chosen:
        return state
    return replace(state, phase="ready", plan=event.plan, error=None)


def _failed(state: State[C, P, R], event: Failed[C]) -> State[C, P, R]:
    if state.phase != "looking" or event.chosen != state.chosen:
        return state
    return replace(state, phase="failed", plan=None, error=event.error)


def _apply(state: State[C, P, R], _: Apply) -> State[C, P, R]:
    return replace(state, phase="applying", notice="") if state.can_apply else state


def _moved(state: State[C, P, R], event: Moved[P]) -> State[C, P, R]:
    return replace(state, phase="ready", plan=event.plan, notice=event.notice)


def _applied(state: State[C, P, R], event: Applied[R]) -> State[C, P, R]:
    return replace(
        state, phase="done", plan=None, result=event.result, error=None, notice=event.notice
    )


def _undo(state: State[C, P, R], _: Undo) -> State[C, P, R]:
    return replace(state, phase="undoing", error=None, notice="") if state.can_undo else state


def _undone(state: State[C, P, R], event: Undone) -> State[C, P, R]:
    phase: Phase = "waiting" if state.on_demand else "looking"
    return replace(state, phase=phase, plan=None, result=None, notice=event.notice)


def _refused(state: State[C, P, R], event: Refused) -> State[C, P, R]:
    phase: Phase = "done" if state.phase == "undoing" else "failed"
    return replace(state, phase=phase, plan=None, error=event.error)


_STEPS: dict[type, Callable[[State[Any, Any, Any], Any], State[Any, Any, Any]]] = {
    Choose: _choose,
    Look: _look,
    Said: lambda state, event: replace(state, notice=event.notice),
    Turn: lambda state, event: replace(state, page=max(event.page, 0)),
    Previewed: _previewed,
    Failed: _failed,
    Apply: _apply,
    Moved: _moved,
    Applied: _applied,
    Undo: _undo,
    Undone: _undone,
    Refused: _refused,
}
