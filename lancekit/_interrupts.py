"""Notes on interrupts about a call's changes, and access to the IPython shell of this process.

An interrupt remains a ``KeyboardInterrupt``.  Public functions add a note to it, which every
traceback shows: the changes that the call had made.
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

#: prefix of the note
PREFIX = "lancekit: "
#: maximum number of recent attempts in a note
_MAX_ATTEMPTS = 64
#: interval in seconds at which a wait in a `Postponed` block checks for an interrupt
LOOK_SECONDS = 0.1

#: default next step after an interrupt
_SHOWS = "ds.checkout_latest() shows the current state"

T = TypeVar("T")
R = TypeVar("R")

Describe = Callable[[bool | None], str]
"""Describes an attempt's result: True (landed), False, or None (unknown); "" omits it."""

Check = Callable[[], bool | None]
"""Checks in the storage if an attempt landed; ``None`` if that is unknown."""

_moments = count()
_caller: ContextVar[int] = ContextVar("lancekit_caller", default=0)
_attempts: deque[Attempt] = deque(maxlen=_MAX_ATTEMPTS)


def _interrupted_thread() -> int:
    """Return the thread that an interrupt of the current work would hit."""
    return _caller.get() or threading.get_ident()


class Attempt:
    """Change that was sent to the storage, and whose result may be unknown.

    Parameters
    ----------
    describe
        Describes the result.
    check
        Returns True if the change landed, ``None`` if that is unknown; called only if the store's
        answer is missing.
    key
        Of several attempts with one key, the last is described.
    then
        The next step after an interrupt.
    otherwise
        True if it is described only if no other attempt has the same `then`.
    """

    def __init__(
        self,
        describe: Describe,
        check: Check,
        key: Hashable = None,
        then: str = _SHOWS,
        *,
        otherwise: bool = False,
    ) -> None:
        self.otherwise = otherwise
        self.begun = mark()
        self.thread = _interrupted_thread()
        self.describe, self.key, self.then = describe, self if key is None else key, then
        self._check: Check | None = check
        self._landed: bool | None = None

    def settle(self, landed: bool | None) -> None:
        """Set the result; ``None`` if it is unknown."""
        self._landed, self._check = landed, None

    def landed(self) -> bool | None:
        """Return True if the change landed, ``None`` if that is unknown."""
        if self._check is not None:
            try:
                self.settle(self._check())
            except (Exception, KeyboardInterrupt):  # a second interrupt, or a storage error
                return None
        return self._landed


def attempted(
    describe: Describe, check: Check, key: Hashable = None, then: str = _SHOWS
) -> Attempt:
    """Record a change before it is made; see `Attempt`."""
    attempt = Attempt(describe, check, key, then)
    _attempts.append(attempt)
    return attempt


def beginning(text: str, then: str) -> None:
    """Record the note, and the next step, for an interrupt before any change."""
    _attempts.append(Attempt(lambda _: text, lambda: False, then=then, otherwise=True))


@contextmanager
def attempting(
    describe: Describe, check: Check, key: Hashable = None, then: str = _SHOWS
) -> Iterator[None]:
    """Record a change that the block makes; it landed if the block ends without an error."""
    attempt = Attempt(describe, check, key, then)
    try:
        yield
        attempt.settle(True)
    finally:
        _attempts.append(attempt)  # after its parts, which have the same key


def outcome(what: str, done: str) -> Describe:
    """Return a function that describes the result of a change.

    Examples
    --------
    >>> [outcome("tag 'a'", "created")(landed) for landed in (True, False)]
    ["tag 'a' was created", "tag 'a' was not created"]
    """

    def describe(landed: bool | None) -> str:
        if landed is None:
            return f"it is unknown whether {what} was {done}"
        return f"{what} was {done}" if landed else f"{what} was not {done}"

    return describe


def on_behalf(work: Callable[[T], R]) -> Callable[[T], R]:
    """Return a function for other threads that attributes its changes to the current thread."""
    here = _interrupted_thread()

    def run(argument: T) -> R:
        token = _caller.set(here)
        try:
            return work(argument)
        finally:
            _caller.reset(token)

    return run


def mark() -> int:
    """Return the current moment, for `explain`."""
    return next(_moments)


def explain(stop: KeyboardInterrupt, since: int) -> None:
    """Add a note to an interrupt about this thread's changes since a moment.

    Outer public functions, which began earlier, replace the note.
    """
    notes = [n for n in getattr(stop, "__notes__", ()) if not n.startswith(PREFIX + "before ")]
    here = _interrupted_thread()
    # copying a deque to a list is atomic; during a copy to a tuple, garbage collection may switch
    # threads, and another thread may record an attempt
    attempts = [a for a in list(_attempts) if a.begun > since and a.thread == here]
    stop.__notes__ = [*notes, f"{PREFIX}before the interrupt {_note_text(attempts)}"]
    # IPython calls it instead of rendering its own traceback
    vars(stop)["_render_traceback_"] = partial(render_failure, stop)


def _note_text(attempts: list[Attempt]) -> str:
    texts: dict[Hashable, str] = {}
    then: dict[str, None] = {}
    for attempt in attempts:
        landed = attempt.landed()
        if not attempt.otherwise and (text := attempt.describe(landed)):
            texts[attempt if landed is None else attempt.key] = text
            then[attempt.then] = None
    for attempt in attempts:
        if attempt.otherwise and attempt.then not in then:
            texts[attempt.key] = attempt.describe(False)
            then[attempt.then] = None
    if not texts:
        return "nothing was committed: the newest version is unchanged."
    listed = "; ".join(texts.values())
    return f"{listed}. Nothing is half-written; {'; '.join(then)}."


class Postponed:
    """Context that postpones interrupts to its end, or to a call of `heed` in the block.

    Python raises an interrupt in the main thread between any two instructions, which could leave a
    change of several steps in memory half-done.  So this context replaces the signal handler in the
    main thread; it does nothing in other threads.  Nested contexts have no effect.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], object] | None = None
        self._pressed = False

    def __enter__(self) -> None:
        global _postponed  # noqa: PLW0603  # only the main thread uses it
        if not _is_main_thread() or _postponed is not None:
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # otherwise Python raises no interrupt
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
        """Restore the previous signal handler."""
        signal.signal(signal.SIGINT, self._handler)

    def heed(self) -> None:
        """Raise the interrupt that arrived since the block began, if any."""
        if self._pressed and self._handler is not None:
            self._pressed = False
            self._handler(signal.SIGINT, None)


_postponed: Postponed | None = None


def heed() -> None:
    """Raise a postponed interrupt; call it where the code can be left safely."""
    if _postponed is not None and _is_main_thread():
        _postponed.heed()


def wait_for(gate: threading.Lock) -> None:
    """Acquire a lock; handle a postponed interrupt meanwhile."""
    if _postponed is None or not _is_main_thread():
        gate.acquire()  # a timeout would wake each of many threads
        return
    while not gate.acquire(timeout=LOOK_SECONDS):
        heed()


def pause(seconds: float) -> None:
    """Sleep; handle a postponed interrupt meanwhile."""
    until = monotonic() + seconds
    heed()
    while (left := until - monotonic()) > 0:
        sleep(min(left, LOOK_SECONDS))
        heed()


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _restore_in_child() -> None:
    """Restore the handler in a child process that another thread forked during a block."""
    global _postponed
    if _postponed is not None:
        postponed, _postponed = _postponed, None
        postponed.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_in_child)

# ---- the IPython shell of this process, if any; this never imports IPython

LOGGER = logging.getLogger("lancekit")
#: execution count and text of the last hint
_last: list[tuple[int, str]] = []


class Shell(Protocol):
    """Part of IPython's shell that lancekit uses."""

    Completer: _Completer
    compile: _Compiler
    custom_exceptions: tuple[type[BaseException], ...]
    display_formatter: _Formatters
    display_pub: _Publisher
    events: _Events
    execution_count: int
    extension_manager: _Extensions
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


class _Formatters(Protocol):
    formatters: dict[str, Formatter]


class Formatter(Protocol):
    """Part of IPython's formatter of a MIME type that lancekit uses."""

    type_printers: dict[type, Callable[..., object]]
    for_type: Callable[[type, Callable[..., object]], object]
    pop: Callable[[type], object]


class _Events(Protocol):
    register: Callable[[str, Callable[..., object]], None]
    unregister: Callable[[str, Callable[..., object]], None]


class _Extensions(Protocol):
    loaded: set[str]


class _Inputs(Protocol):
    input_hist_raw: list[str]


class _Magics(Protocol):
    magics: dict[str, dict[str, object]]


def active_shell() -> Shell | None:
    """Return the IPython shell of this process, or ``None``."""
    get: Callable[[], Shell | None] | None
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def in_kernel() -> bool:
    """Return True if this process is a notebook's kernel."""
    return hasattr(active_shell(), "kernel")


def hints_are_seen() -> bool:
    """Return True if somebody can see a hint, before a hint is computed that costs requests."""
    return active_shell() is not None or (
        LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers()
    )


def show_hint(text: str) -> None:
    """Print a hint in IPython, once per cell; otherwise log it.  It is never a warning."""
    shell = active_shell()
    if shell is None:
        LOGGER.info(text)
    elif (hint := (shell.execution_count, text)) not in _last:
        _last[:] = [hint]
        print(text)
