"""What an interrupt leaves behind, and the shell of IPython around this process.

An interrupt stays the ``KeyboardInterrupt`` that it is.  On its way out of a public function it
gets a note, which every traceback shows: what the call had done by then.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from time import monotonic, sleep
from types import FrameType
from typing import Protocol, TypeVar

from lancekit._display import render_failure

#: how the note begins
PREFIX = "lancekit: "
#: of so many attempts at most something is told
_KEPT = 64
#: a wait within a `Postponed` block looks this often whether an interrupt came
LOOK_SECONDS = 0.1

#: what to do after an interrupt, unless the change says otherwise
_SHOWS = "ds.checkout_latest() shows what is there"

T = TypeVar("T")
R = TypeVar("R")

Told = Callable[[bool | None], str]
"""Says what became of an attempt: it landed, it did not, or nobody can tell; or nothing."""

Look = Callable[[], bool | None]
"""Looks what became of an attempt."""

_moments = count()
_caller: ContextVar[int] = ContextVar("lancekit_caller", default=0)
_attempts: deque[Attempt] = deque(maxlen=_KEPT)


def _whose() -> int:
    """Return the thread that an interrupt would strike, of the one that works."""
    return _caller.get() or threading.get_ident()


class Attempt:
    """A change on its way into the storage: whether it landed is not known yet.

    Parameters
    ----------
    told
        Says what became of it.
    look
        Looks whether it landed, ``None`` if nobody can tell; asked only if the store's answer was
        not heard.
    key
        Of attempts with one key the last is told.
    then
        What to do after an interrupt.
    otherwise
        True if it is told only where no other attempt with the same `then` is.
    """

    def __init__(
        self,
        told: Told,
        look: Look,
        key: Hashable = None,
        then: str = _SHOWS,
        *,
        otherwise: bool = False,
    ) -> None:
        self.otherwise = otherwise
        self.begun = mark()
        self.thread = _whose()
        self.told, self.key, self.then = told, self if key is None else key, then
        self._look: Look | None = look
        self._landed: bool | None = None

    def settle(self, landed: bool | None) -> None:
        """Say what became of it; ``None`` if nobody can tell."""
        self._landed, self._look = landed, None

    def landed(self) -> bool | None:
        """Return whether it landed, ``None`` if that cannot be told."""
        if self._look is not None:
            try:
                self.settle(self._look())
            except (Exception, KeyboardInterrupt):  # pressed again, or the storage failed
                return None
        return self._landed


def attempted(told: Told, look: Look, key: Hashable = None, then: str = _SHOWS) -> Attempt:
    """Note that something is about to be changed; see `Attempt`."""
    attempt = Attempt(told, look, key, then)
    _attempts.append(attempt)
    return attempt


def beginning(told: str, then: str) -> None:
    """Note what an interrupt says while the call changed nothing, and what to do then."""
    _attempts.append(Attempt(lambda _: told, lambda: False, then=then, otherwise=True))


@contextmanager
def attempting(told: Told, look: Look, key: Hashable = None, then: str = _SHOWS) -> Iterator[None]:
    """Note that the block changes something, which landed if the block comes to its end."""
    attempt = Attempt(told, look, key, then)
    try:
        yield
        attempt.settle(True)
    finally:
        _attempts.append(attempt)  # behind what it is made of: that has its key, too


def outcome(what: str, done: str) -> Told:
    """Return what says of something that it was changed, or not.

    Examples
    --------
    >>> [outcome("tag 'a'", "created")(landed) for landed in (True, False)]
    ["tag 'a' was created", "tag 'a' was not created"]
    """

    def told(landed: bool | None) -> str:
        if landed is None:
            return f"whether {what} was {done} is not known"
        return f"{what} was {done}" if landed else f"{what} was not {done}"

    return told


def on_behalf(work: Callable[[T], R]) -> Callable[[T], R]:
    """Return a function for other threads; what it changes is told to the thread of now."""
    here = _whose()

    def run(argument: T) -> R:
        token = _caller.set(here)
        try:
            return work(argument)
        finally:
            _caller.reset(token)

    return run


def mark() -> int:
    """Return the moment of now, for `explain`."""
    return next(_moments)


def explain(stop: KeyboardInterrupt, since: int) -> None:
    """Note on an interrupt what this thread changed since a moment.

    Callers further out, who began earlier, replace the note.
    """
    notes = [n for n in getattr(stop, "__notes__", ()) if not n.startswith(PREFIX + "before ")]
    here = _whose()
    # a list is filled in one step; before a tuple is, garbage may be collected, threads change,
    # and another one notes an attempt
    made = [a for a in list(_attempts) if a.begun > since and a.thread == here]
    stop.__notes__ = [*notes, f"{PREFIX}before the interrupt {_told(made)}"]
    # what IPython asks in the place of making a traceback of its own
    vars(stop)["_render_traceback_"] = partial(render_failure, stop)


def _told(made: list[Attempt]) -> str:
    said: dict[Hashable, str] = {}
    then: dict[str, None] = {}
    for attempt in made:
        landed = attempt.landed()
        if not attempt.otherwise and (text := attempt.told(landed)):
            said[attempt if landed is None else attempt.key] = text
            then[attempt.then] = None
    for attempt in made:
        if attempt.otherwise and attempt.then not in then:
            said[attempt.key] = attempt.told(False)
            then[attempt.then] = None
    if not said:
        return "nothing was committed: the newest version is the one that was there."
    listed = "; ".join(said.values())
    return f"{listed}. Nothing is half-written; {'; '.join(then)}."


class Postponed:
    """A block that an interrupt leaves at its end, or where the block calls `heed`.

    Python raises an interrupt in the main thread, between any two instructions.  A change of
    several steps in memory would be left half-done there.  So this block replaces the handler of
    the signal in the main thread; other threads do nothing.  A block within a block adds nothing.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], object] | None = None
        self._pressed = False

    def __enter__(self) -> None:
        global _postponed  # noqa: PLW0603  # there is one main thread
        if not _is_main_thread() or _postponed is not None:
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # else Python raises no interrupt
            self._handler = handler
            signal.signal(signal.SIGINT, self._press)
            _postponed = self

    def __exit__(self, *_: object) -> None:
        global _postponed  # noqa: PLW0603
        if self._handler is not None:
            _postponed = None
            self.restore()
            self.heed()

    def _press(self, *_: object) -> None:
        self._pressed = True

    def restore(self) -> None:
        """Put the handler of the signal back."""
        signal.signal(signal.SIGINT, self._handler)

    def heed(self) -> None:
        """Raise the interrupt that came since the block began, if one did."""
        if self._pressed and self._handler is not None:
            self._pressed = False
            self._handler(signal.SIGINT, None)


_postponed: Postponed | None = None


def heed() -> None:
    """Raise a postponed interrupt: the code that calls this can be left here."""
    if _postponed is not None and _is_main_thread():
        _postponed.heed()


def wait_for(gate: threading.Lock) -> None:
    """Acquire a lock, and heed an interrupt meanwhile."""
    if _postponed is None or not _is_main_thread():
        gate.acquire()  # without a timeout: it would wake each of many threads
        return
    while not gate.acquire(timeout=LOOK_SECONDS):
        heed()


def pause(seconds: float) -> None:
    """Sleep, and heed an interrupt meanwhile."""
    until = monotonic() + seconds
    heed()
    while (left := until - monotonic()) > 0:
        sleep(min(left, LOOK_SECONDS))
        heed()


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _forget() -> None:
    """Restore the handler in a process that another thread forked during a block."""
    global _postponed
    if _postponed is not None:
        held, _postponed = _postponed, None
        held.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

# ---- the shell of IPython around this process, if there is one; IPython is never loaded for it

LOGGER = logging.getLogger("lancekit")
#: the cell and the text of the last hint
_last: list[tuple[int, str]] = []


class Shell(Protocol):
    """A shell of IPython, as far as lancekit asks it."""

    Completer: _Completer
    compile: _Compiler
    custom_exceptions: tuple[type[BaseException], ...]
    display_pub: _Publisher
    execution_count: int
    history_manager: _Inputs
    magics_manager: _Magics
    user_ns: dict[str, object]
    register_magic_function: Callable[[Callable[..., object], str, str], None]
    set_custom_exc: Callable[[tuple[type[BaseException], ...], Callable[..., None] | None], None]
    showtraceback: Callable[..., None]


class _Completer(Protocol):
    custom_matchers: list[object]


class _Compiler(Protocol):
    def format_code_name(self, name: str) -> tuple[str, str] | None: ...


class _Publisher(Protocol):
    def publish(self, data: dict[str, str]) -> None: ...


class _Inputs(Protocol):
    input_hist_raw: list[str]


class _Magics(Protocol):
    magics: dict[str, dict[str, object]]


def active_shell() -> Shell | None:
    """Return the shell that this process runs in, or ``None``."""
    get: Callable[[], Shell | None] | None
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def in_kernel() -> bool:
    """Return whether this process is a notebook's kernel."""
    return hasattr(active_shell(), "kernel")


def hints_are_seen() -> bool:
    """Tell whether `show_hint` reaches anybody: a hint that costs requests is not made in vain."""
    return active_shell() is not None or (
        LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers()
    )


def show_hint(text: str) -> None:
    """Print a hint in IPython, once for a cell; elsewhere log it.  It is never a warning."""
    shell = active_shell()
    if shell is None:
        LOGGER.info(text)
    elif (hint := (shell.execution_count, text)) not in _last:
        _last[:] = [hint]
        print(text)
