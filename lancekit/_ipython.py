"""Registration with IPython: magics, Tab completion, cards of errors, and display of Arrow tables.

`import lancekit` and ``%load_ext lancekit`` register it.  Each part imports its module at the first
use, and a thread imports what completion needs as soon as no cell has run for a moment, so that
neither the import nor a cell waits for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

import pyarrow as pa

from lancekit._display import HTML, TEXT
from lancekit._interrupts import Formatter, Shell, active_shell
from lancekit._lazy import loaded
from lancekit.errors import LancekitError

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult

#: the environment variable that turns registration at import off with "0"
SWITCH = "LANCEKIT_IPYTHON"
#: the matcher's name in IPython
_MATCHER = "lancekit"
#: exceptions with a card instead of a traceback, or with a note, as calls of values;
#: an interrupt is still raised as KeyboardInterrupt
_KINDS = (LancekitError, KeyboardInterrupt, TypeError)
#: seconds after a cell, and after a Tab, at which the thread begins
_AFTER_CELL, _AFTER_TAB = 0.2, 1.5
#: seconds that a fork waits for the thread
_FORK_SECONDS = 5.0
#: functions whose modules the thread imports, those of SQL cells last
_WARM = ("completion.complete", "sql_completion.complete_magic", "tables.table_html")


def at_import() -> None:
    """Register with the IPython shell of this process, if there is one and it does not forbid it.

    The variable ``LANCEKIT_IPYTHON=0``, or ``c.LancekitExtension.enabled = False`` in IPython's
    configuration, forbids it.
    """
    shell = active_shell()
    if shell is None or os.environ.get(SWITCH) == "0" or not _enabled(shell):
        return
    try:
        load(shell)
        # so that %unload_ext takes it back
        shell.extension_manager.loaded.add("lancekit")
        _WarmUp(shell)
    except Exception:  # noqa: S110  # the library works without it
        pass


def _enabled(shell: Shell) -> bool:
    section: Mapping[str, object] = getattr(shell, "config", {}).get("LancekitExtension", {})
    return str(section.get("enabled", True)).lower() not in {"false", "0"}


def load(given: object) -> None:
    """Register all parts with a shell; repeated calls change nothing."""
    shell = cast("Shell", given)
    shell.register_magic_function(
        lambda line, cell=None: loaded("_notebook.magics.lance")(shell, line, cell),
        "line_cell",
        "lance",
    )
    _unregister_matcher(shell)
    _register_matcher(shell)
    if hasattr(shell, "kernel") and not shell.custom_exceptions:
        shell.set_custom_exc(_KINDS, _handle)
    for kind, formatter in _formatters(shell).items():
        if pa.Table not in formatter.type_printers:  # the user's own stays
            formatter.for_type(pa.Table, _TABLES[kind])


def unload(given: object) -> None:
    """Remove all parts; an exception handler that was installed later stays."""
    shell = cast("Shell", given)
    for known in shell.magics_manager.magics.values():
        known.pop("lance", None)
    _unregister_matcher(shell)
    if shell.custom_exceptions == _KINDS:
        shell.set_custom_exc((), None)
    for kind, formatter in _formatters(shell).items():
        if formatter.type_printers.get(pa.Table) is _TABLES[kind]:
            formatter.pop(pa.Table)


# ---- errors and tables


class _Printer(Protocol):
    def text(self, text: str) -> None: ...


def _handle(shell: Shell, *error: object, **how: object) -> None:
    loaded("_notebook.failures.handle")(shell, *error, **how)


def _html_table(table: pa.Table) -> str | None:
    found: str | None = loaded("_notebook.tables.table_html")(table)
    return found


def _text_table(table: pa.Table, printer: _Printer, cycle: bool) -> None:
    del cycle  # a table has no reference to itself
    printer.text(loaded("_notebook.tables.table_text")(table))


_TABLES: Mapping[str, Callable[..., object]] = {HTML: _html_table, TEXT: _text_table}


def _formatters(shell: Shell) -> dict[str, Formatter]:
    known = shell.display_formatter.formatters
    return {kind: known[kind] for kind in _TABLES if kind in known}


# ---- completion


def _register_matcher(shell: Shell) -> None:
    """Register the completions with a shell of IPython 8.6 or newer."""
    try:
        from IPython.core.completer import context_matcher
    except ImportError:
        return

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        for warm_up in _waiting:
            warm_up.start(_AFTER_TAB)
        if not _concerned(context.full_text):
            return {"completions": []}
        found: SimpleMatcherResult = loaded("_notebook.completion.matches")(context, shell.user_ns)
        return found

    shell.Completer.custom_matchers.append(context_matcher(identifier=_MATCHER)(matcher))


def _concerned(text: str) -> bool:
    """Return True if a cell can need lancekit's completions: without a handle only a few can."""
    words = ("%lance", "options", "write_dataset", "stream_sink", "dataset(", "sql(")
    return "lancekit._api.lance_dataset" in sys.modules or any(word in text for word in words)


def _unregister_matcher(shell: Shell) -> None:
    own = shell.Completer.custom_matchers
    own[:] = [one for one in own if getattr(one, "matcher_identifier", "") != _MATCHER]


class _WarmUp:
    """Imports what completion needs, once, in a thread, when the shell has rested for a moment."""

    def __init__(self, shell: Shell) -> None:
        self._events = shell.events
        self._timer: threading.Timer | None = None
        self._events.register("pre_run_cell", self._cancel)
        self._events.register("post_run_cell", self._after_cell)
        _waiting[:] = [self]

    def start(self, seconds: float) -> None:
        """Import the modules after some seconds, counted from now."""
        self._cancel()
        self._timer = threading.Timer(seconds, self._import)
        self._timer.daemon = True
        self._timer.start()

    def _after_cell(self, *_: object) -> None:
        self.start(_AFTER_CELL)

    def _cancel(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()  # does nothing once the imports have begun

    def _import(self) -> None:
        _waiting.clear()
        self._events.unregister("pre_run_cell", self._cancel)
        self._events.unregister("post_run_cell", self._after_cell)
        if hasattr(os, "register_at_fork"):
            # a child that is forked during an import would wait for the import's lock forever
            os.register_at_fork(before=self._join)
        try:
            for name in _WARM:
                loaded(f"_notebook.{name}")
        except Exception:  # noqa: S110  # the call that needs the module raises the error
            pass

    def _join(self) -> None:
        if self._timer is not None and self._timer is not threading.current_thread():
            self._timer.join(_FORK_SECONDS)


#: the one that has not begun yet
_waiting: list[_WarmUp] = []
