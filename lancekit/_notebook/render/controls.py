"""Building blocks of widgets: a queue for the newest request, tables of rows, confirmed changes.

ipywidgets is imported when a widget is made.  Every interactive object also has a card, its static
twin.  A cell outputs both: saved notebooks and front ends without widgets show the card.
"""

from __future__ import annotations

import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from contextvars import copy_context
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import pyarrow as pa
from pyarrow import types as pt

from lancekit._display import HTML, Displayed
from lancekit._interrupts import active_shell, in_kernel
from lancekit._lazy import cached_property
from lancekit._legible import clean_line, python_value
from lancekit._notebook.render.html import render_html, render_note
from lancekit._notebook.render.models import Card, Column, Row, Table
from lancekit._notebook.render.words import cell, clean, count, plural
from lancekit.errors import InvalidTypeError, LancekitError
from lancekit.options import options

if TYPE_CHECKING:
    import ipywidgets as w

#: MIME type from which a front end draws a widget
VIEW = "application/vnd.jupyter.widget-view+json"
#: limits: characters of a value, values of a list, lines of an error, characters of such a line
_VALUE, _VALUES, _LINES, _ERROR = 80, 8, 12, 400
#: style for JupyterLab and pages of nbconvert: it hides the twin if the widget follows, and hides
#: the error message of a missing widget, so that the twin stays
_TWIN = """<style>
:is(.jp-OutputArea-child, .output_area):has(.lancekit-twin):has(+ * .lancekit-panel),
.jp-OutputArea-child:has(.lancekit-twin)
  + .jp-OutputArea-child:has(> .jupyter-widgets):not(:has(.lancekit-panel)) { display: none; }
</style>"""

T = TypeVar("T")


# ---- requests


def _in_thread(run: Callable[[], None]) -> None:
    """Run a function in a background thread with the caller's context, and so its options."""
    context = copy_context()
    threading.Thread(target=context.run, args=(run,), name="lancekit-widget", daemon=True).start()


class Latest(Generic[T]):
    """Runs requests one at a time in the background; a newer request replaces a waiting one.

    work: handles a request in a background thread.  Its second argument is a function that returns
        True once a newer request waits: then it can end early.
    failed: receives an exception of ``work``.
    start: starts a thread.  Where threads do not exist, the caller of `submit` runs ``work``.

    Examples
    --------
    >>> done = []
    >>> latest = Latest(lambda request, cancelled: done.append(request), failed=done.append)
    >>> latest.submit("now")
    >>> latest.wait(10)
    True
    >>> done
    ['now']
    """

    def __init__(
        self,
        work: Callable[[T, Callable[[], bool]], None],
        failed: Callable[[Exception], None],
        start: Callable[[Callable[[], None]], None] = _in_thread,
    ) -> None:
        self._work, self._failed, self._start = work, failed, start
        self._changed = threading.Condition()
        self._waiting: list[T] = []  # one at most
        self._newest = 0
        self._is_running = False

    def submit(self, request: T) -> None:
        """Submit a request; it replaces a request that waits."""
        with self._changed:
            self._waiting = [request]
            self._newest += 1
            if self._is_running:
                return
            self._is_running = True
        try:
            self._start(self._run)
        except RuntimeError:  # no threads: Python runs in a browser
            self._run()

    def stop(self) -> None:
        """Drop the waiting request, and signal the running one to end early."""
        with self._changed:
            self._waiting = []
            self._newest += 1

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no request is running; return False after a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_running = False
                    self._changed.notify_all()
                    return
                request, cancelled = self._waiting.pop(), partial(self._is_cancelled, self._newest)
            try:
                self._work(request, cancelled)
            except Exception as error:  # no caller could catch it
                self._failed(error)

    def _is_cancelled(self, number: int) -> bool:
        return self._newest != number


# ---- errors, cards and rows


def error_text(error: Exception) -> str:
    """Return an exception's message and hint as a few lines, safe to display."""
    name = "" if isinstance(error, LancekitError) else f"{type(error).__name__}: "
    lines = f"{name}{error}".splitlines()
    return "\n".join(clean_line(line, _ERROR) for line in lines[:_LINES])


def as_html(value: object) -> str:
    """Return a card, an object with a card, or an exception's message as HTML."""
    if isinstance(value, Card):
        return render_html(value)
    if isinstance(value, Exception):
        return render_note(error_text(value), role="alert")
    html: str | None = getattr(value, "_repr_html_", str)()
    return html or render_note(clean(str(value)))


def page_table(rows: pa.Table, caption: str, start: int, total: int | None) -> Table:
    """Return rows of a page as a table; its note has their positions and the total number.

    rows: the page with all columns; the table shows at most `options.display_columns`.
    caption: the caption of the table.
    start: the number of rows before the page.
    total: the number of rows in all; ``None`` if they are not counted.
    """
    width = min(options.display_columns, rows.num_columns)
    fields, columns = list(rows.schema)[:width], rows.columns[:width]
    of = "an unknown number of rows" if total is None else plural(total, "row")
    which = f"{count(start + 1)} to {count(start + rows.num_rows)}" if rows.num_rows else "none"
    hidden = f"; {count(width)} of {plural(rows.num_columns, 'column')}"
    return Table(
        caption=caption,
        columns=tuple(Column(clean(f.name), numeric=_is_number(f.type)) for f in fields),
        rows=tuple(
            Row(tuple(_value(column[at]) for column in columns)) for at in range(rows.num_rows)
        ),
        note=f"{which} of {of}{hidden if rows.num_columns > width else ''}",
    )


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)


def _value(scalar: pa.Scalar | None) -> str:
    """Return a value as a cell; a long list is cut after its first values, with its length."""
    if isinstance(scalar, pa.ExtensionScalar):
        scalar = scalar.value
    values = scalar.values if isinstance(scalar, pa.ListScalar) else None
    if values is not None and len(values) > _VALUES:
        first = ", ".join(map(_value, values[:_VALUES]))
        return cell(f"[{first}, …] of {count(len(values))}", _VALUE)
    value = None if scalar is None else python_value(scalar)
    return plural(len(value), "byte") if isinstance(value, bytes) else cell(value, _VALUE)


# ---- widgets


def markup(html: str = "") -> w.HTML:
    """Return a widget that shows HTML."""
    import ipywidgets

    return ipywidgets.HTML(html, layout=ipywidgets.Layout(margin="2px 0", max_width="100%"))


def panel(*children: w.Widget) -> w.VBox:
    """Return widgets in a column, in the style of cards, with a visible focus."""
    import ipywidgets

    # the width of cards; wide tables use the whole page
    width = {"width": "fit-content", "min_width": "min(100%, 62em)", "max_width": "100%"}
    made = ipywidgets.VBox(children, layout=ipywidgets.Layout(**width))
    made.add_class("lancekit-panel")
    return made


def button(text: str, about: str, press: Callable[[], None]) -> w.Button:
    """Return a button; ``about`` is its tooltip, which explains a short text."""
    import ipywidgets

    made = ipywidgets.Button(
        description=text, tooltip=about, layout=ipywidgets.Layout(width="auto", min_width="40px")
    )
    made.on_click(lambda _: press())
    return made


class Confirmed(Generic[T]):
    """Widgets that preview a change before it is made: a button, the plan's card, then *apply*.

    Planning and applying run in a background thread; their exceptions replace the card.

    text, about: text and tooltip of the button.
    plan: returns the plan, an object with a card, and changes nothing.
    apply: makes the change of a plan, and returns an object with a card, or ``None``.  It must
        refuse an outdated plan.
    """

    def __init__(
        self, text: str, about: str, plan: Callable[[], T], apply: Callable[[T], object]
    ) -> None:
        import ipywidgets

        self._plan, self._apply = plan, apply
        self._planned: list[T] = []
        self._latest = Latest[Callable[[], None]](lambda work, _: work(), self._failed)
        self.preview = button(text, about, self._preview_pressed)
        self.confirm = button("apply", f"{about}: apply the plan", self._pressed)
        self.leave = button("cancel", f"{about}: change nothing", self.clear)
        self.shown = markup()
        self._choice = ipywidgets.HBox([self.confirm, self.leave])
        self.result = panel(self.shown, self._choice)
        self.clear()

    def clear(self) -> None:
        """Drop the plan and its card."""
        self._display("")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until neither planning nor applying runs; return False after a timeout."""
        return self._latest.wait(seconds)

    def _preview_pressed(self) -> None:
        self._display(render_note("preparing the preview …", role="status"))
        self._latest.submit(self._show)

    def _show(self) -> None:
        plan = self._plan()
        self._display(as_html(plan), plan)

    def _pressed(self) -> None:
        if self._planned:  # else a second press, or the plan is not shown yet
            plan = self._planned.pop()
            self._display(render_note("applying …", role="status"))
            self._latest.submit(lambda: self._do(plan))

    def _do(self, plan: T) -> None:
        result = self._apply(plan)
        self._display("" if result is None else as_html(result))

    def _failed(self, error: Exception) -> None:
        self._display(as_html(error))

    def _display(self, html: str, *plans: T) -> None:
        self._planned = [*plans]
        self.shown.value = html
        self._choice.layout.display = None if plans else "none"


class Interactive(Displayed):
    """An object shown as a widget in a notebook, and as a card where widgets do not work."""

    @abstractmethod
    def _card(self, now: datetime) -> Card:
        """Return the card: the static twin of the widget."""

    @abstractmethod
    def _made(self) -> w.Widget:
        """Build and return the widget."""

    @cached_property
    def widget(self) -> w.Widget:
        """The widget, made at first access, for layouts of several widgets."""
        return self._made()

    def __reduce__(self) -> NoReturn:
        raise InvalidTypeError(
            f"{type(self).__name__} is a widget: it can be neither copied nor sent.",
            hint="Send the dataset, a plan or a result that it shows.",
        )

    def _ipython_display_(self) -> None:
        """Display the card and the widget as two outputs, so that the card can replace the widget.

        Of a single output, JupyterLab and nbconvert would show the widget alone, and an error or
        nothing once its kernel is gone.

        Raises NotImplementedError: a single output is enough: there is no widget, or the front end
            would show both outputs.
        """
        shell = active_shell()
        bundle = self._repr_mimebundle_() if _shows_one_of_two() else {}
        if shell is None or not {HTML, VIEW} <= bundle.keys():
            raise NotImplementedError
        publish = shell.display_pub.publish
        # the empty HTML replaces the message of front ends without widgets
        widget = {VIEW: bundle.pop(VIEW), HTML: ""}
        bundle[HTML] = f'<div class="lancekit-twin">{_TWIN}{bundle[HTML]}</div>'
        publish(bundle)
        publish(widget)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the card as text and HTML, and in a notebook the widget, too."""
        bundle = dict[str, Any](super()._repr_mimebundle_(include, exclude))
        if in_kernel() and find_spec("ipywidgets"):
            try:
                bundle[VIEW] = self.widget._repr_mimebundle_()[VIEW]
            except Exception as error:  # a repr must neither raise nor vanish
                bundle[HTML] = bundle.get(HTML, "") + as_html(error)
        return bundle


def _shows_one_of_two() -> bool:
    """Return True in a kernel with widgets whose front end keeps a cell's outputs in one area."""
    shell = active_shell()
    if shell is None or not (in_kernel() and find_spec("ipywidgets")):
        return False
    # VS Code and Colab put each output into a separate box
    return "google.colab" not in sys.modules and "__vsc_ipynb_file__" not in shell.user_ns
