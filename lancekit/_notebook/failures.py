"""Errors in notebook cells as short cards with message, location and next step, not tracebacks.

IPython calls `render` (by ``_render_traceback_``) for errors of lancekit and for interrupts of its
calls.  The exception objects and their causes do not change.  ``%lance tb`` prints the whole
traceback.  In a notebook that loaded the extension the card is HTML.
"""

from __future__ import annotations

import ast
import linecache
import re
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from traceback import walk_tb
from types import TracebackType

from lancekit import _interrupts as interrupts
from lancekit._display import HTML, TEXT
from lancekit._interrupts import Shell, active_shell
from lancekit._lazy import loaded
from lancekit._legible import clean_line
from lancekit._notebook.cards import card
from lancekit._notebook.cards.failure import first_line
from lancekit._notebook.render.html import render_html, render_text
from lancekit._notebook.render.models import Card, Fact
from lancekit._notebook.render.words import clean, count, plural
from lancekit.errors import LancekitError

#: the largest number of lines of a card that replaces a traceback
LINES = 12
_CAUSES = 3
_SOURCE = 120
_HERE = str(Path(__file__).parents[1])
# frames of these folders are not user code
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_MAGIC = re.compile(r"get_ipython\(\)\.run_(cell|line)_magic\((['\"])(\w+)\2, *(['\"])(.*?)\4")
_JVM = re.compile(r"^\s*(at [\w.$/<>]+\(|\.\.\. \d+ more|Caused by: )", re.MULTILINE)

Frame = tuple[str, int]

#: the error whose card was just published as HTML, while IPython prints it
_published: list[BaseException] = []


def render(error: BaseException) -> list[str]:
    """Return the text that IPython prints, as one item: not every ``%xmode`` separates items."""
    if any(error is one for one in _published):
        return [type(error).__name__]  # the card directly above has the details
    return [_text(error, _card(error, active_shell()))]


def publish(shell: object, error: BaseException) -> None:
    """Show the card of an error, or of an interrupt, in a notebook."""
    from IPython.display import display

    show: Callable[..., object] = display
    made = _card(error, shell)
    show({TEXT: _text(error, made), HTML: render_html(made)}, raw=True)


def handle(
    shell: Shell,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show the card of an error, then let IPython print the error."""
    if isinstance(error, TypeError) and not isinstance(error, LancekitError):
        with suppress(Exception):
            loaded("_notebook.called_values.add_note")(error, trace)
    if isinstance(error, LancekitError) or _notes(error):  # other interrupts are not ours
        try:
            publish(shell, error)
            _published.append(error)
        except Exception:  # noqa: S110  # showtraceback below prints the error as text
            pass
    try:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    finally:
        _published.clear()


def _text(error: BaseException, made: Card) -> str:
    """Return a card as text; its first line has the form of a traceback's last line."""
    name = type(error).__name__
    parts = made.headline if made.title == name else (made.title, *made.headline)
    return render_text(replace(made, title=f"{name}: {'; '.join(parts)}", headline=()))


def _card(error: BaseException, shell: object) -> Card:
    if isinstance(error, LancekitError):
        made = card(error, datetime.now(UTC))
    else:
        made = Card(kind="Interrupted", title=type(error).__name__, headline=(_notes(error),))
    details = [fact for fact in made.facts if fact.label != "next"]
    steps = [fact for fact in made.facts if fact.label == "next"]
    end = [*_locations(error, shell), *steps, *_causes(error, shell), _traceback_hint(error, shell)]
    room = LINES - 1 - len(end)
    if len(details) > room:
        more = len(details) - room + 1
        details = [*details[: room - 1], Fact("", f"... and {plural(more, 'line')} more")]
    return replace(made, facts=(*details, *end))


def _notes(error: BaseException) -> str:
    """Return the text of the notes that lancekit added to an interrupt."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(interrupts.PREFIX)]
    return " ".join(clean_line(note.removeprefix(interrupts.PREFIX), 400) for note in notes)


# ---- location


def _locations(error: BaseException, shell: object) -> list[Fact]:
    """Return the user's innermost line in a cell, and the innermost one in a module below it."""
    frames = list(_user_frames(error))
    cells = [frame for frame in frames if _cell_name(frame, shell)]
    if not frames:
        return []
    first = (cells or frames)[-1]
    facts = [Fact("where", _location(first, shell, error), code=True)]
    if frames[-1] is not first:
        facts.append(Fact("module", _location(frames[-1], shell, error), code=True))
    return facts


def _user_frames(error: BaseException) -> Iterator[Frame]:
    """Yield the frames of user code (file and line) above the first frame of lancekit."""
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(_HERE):
            return
        if not file.startswith(("<frozen", "<decorator", *_LIBRARIES)):
            yield file, line


def _cell_name(frame: Frame, shell: object) -> str:
    named: Callable[[str], tuple[str, str] | None] | None = getattr(
        getattr(shell, "compile", None), "format_code_name", None
    )
    found = named(frame[0]) if named else None
    return " ".join(found) if found else ""


def _location(frame: Frame, shell: object, error: BaseException) -> str:
    file, line = frame
    source = linecache.getline(file, line).strip()
    if magic := _MAGIC.match(source):
        if magic[1] == "cell" and (below := _line_of_sql(source, error)):
            line, source = line + below[0], below[1]
        else:
            source = f"{'%%' if magic[1] == 'cell' else '%'}{magic[3]} {magic[5]}".rstrip()
    place = _cell_name(frame, shell) or clean(Path(file).name)
    return f"{place}, line {count(line)}" + (f": {clean(source, _SOURCE)}" if source else "")


def _line_of_sql(source: str, error: BaseException) -> tuple[int, str] | None:
    """Return number and text of the line of a cell magic's SQL to which an error refers."""
    facts = error.context if isinstance(error, LancekitError) else {}
    sql, number = facts.get("sql"), facts.get("line")
    call = ast.parse(source, mode="eval").body
    if not (sql and number and isinstance(call, ast.Call)):
        return None
    lines = str(ast.literal_eval(call.args[-1])).split("\n")
    line = lines[number - 1].strip() if number <= len(lines) else ""
    # the error may be about a condition that is stored in the table
    return (number, line) if line.endswith(sql.split("\n")[number - 1].strip()) and line else None


# ---- causes


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes and contexts of an error in the order of tracebacks."""
    seen = {id(error)}
    while True:
        hidden = error.__suppress_context__ or error.__cause__ is not None
        cause = error.__cause__ if hidden else error.__context__
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        yield cause
        error = cause


def _causes(error: BaseException, shell: object) -> list[Fact]:
    chain = list(_chain(error))
    facts = [Fact("cause", _cause(one, shell)) for one in chain[:_CAUSES]]
    if len(chain) > _CAUSES:
        facts[-1] = Fact("cause", f"{len(chain) - _CAUSES + 1} more causes")
    return facts


def _cause(error: BaseException, shell: object) -> str:
    text = f"{type(error).__name__}: {first_line(error)}"
    cells = [frame for frame in _user_frames(error) if _cell_name(frame, shell)]
    if cells:
        text += f" ({_cell_name(cells[-1], shell)}, line {cells[-1][1]})"
    lines = len(_JVM.findall(str(error)))
    return text + (f" ({plural(lines, 'line')} of the JVM omitted)" if lines else "")


def _traceback_hint(error: BaseException, shell: object) -> Fact:
    frames = sum(len(list(walk_tb(one.__traceback__))) for one in (error, *_chain(error)))
    magics = getattr(getattr(shell, "magics_manager", None), "magics", {})
    loaded = "" if "lance" in magics.get("line", ()) else "%load_ext lancekit, then "
    return Fact("traceback", f"{loaded}%lance tb ({plural(frames, 'frame')})")
