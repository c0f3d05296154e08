"""Conversion of Spark failures to errors of lancekit, and checks of package versions."""

from __future__ import annotations

import pickle
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any, TypeVar, cast

from lancekit import errors
from lancekit._version import __version__
from lancekit.errors import EngineError, LancekitError, SessionError

Called = TypeVar("Called", bound=Callable[..., object])

#: the beginning of the error of a job
FAILED = "A Spark job failed: "

#: text that Connect appends, which is of use only to Java programmers
_JAVA_SIDE = re.compile(r"\s+JVM stacktrace:\n.*|\.?\s+SQLSTATE: \w+(?=[;\s]|$)", re.DOTALL)
#: a position in a text that differs from the user's text
_PLACE = re.compile(r";? (?:line \d+ pos \d+|\(line \d+, pos \d+\))")
_LAST_FRAME = re.compile(r'.*^ +File "[^\n]*\n(?:    [^\n]*\n)*', re.DOTALL | re.MULTILINE)
#: the text after the traceback of a worker that could not start
_REST = re.compile(r"\n\s*(?:PYTHONPATH was:|at [\w.$]+\().*", re.DOTALL)
_OWN = re.compile(r"lancekit\.errors\.(\w+): (.*)", re.DOTALL)
_FRAME = re.compile(r'^ +File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)
_OWN_FOLDER = str(Path(errors.__file__).parent)
#: folders whose frames do not help the author of a function that failed
_LIBRARIES = frozenset({"site-packages", "dist-packages", "pyspark", "pyspark.zip"})
_LOST_TASK = re.compile(r"most recent failure: [^\n]*?\): (?:[\w.$]+: )?([^\n]*)")
#: Java's messages on the way to the cause
_JAVA_ERROR = re.compile(r"^(?:: |Caused by: )(?:[\w.$]+: )?([^\n]+)", re.MULTILINE)
_NO_REASON = "Exception thrown in awaitResult"
_ABORTED = "Job aborted due to stage failure: "
_HINTS = {
    "spark.driver.maxResultSize": "The results of the tasks exceed this setting: increase it "
    "when the session is started, or set it to 0 for no limit.",
    "No module named 'lancekit'": "Install lancekit where Spark's workers run, too.",
    "No module named": "Install it on Spark's workers. They run the Python that PYSPARK_PYTHON "
    "named when the session started, or else the python3 on the PATH.",
    "[PYTHON_VERSION_MISMATCH]": "Set PYSPARK_PYTHON to this version's path on the workers.",
    "Python worker exited unexpectedly": "It was killed, probably because it ran out of memory, "
    "or a function of the rows ended it (os._exit).",
}


def job_failure(error: Exception) -> LancekitError:
    """Return the error to raise for the failure of a job that lancekit started.

    An error of lancekit keeps its type and text.  Any other becomes an ``EngineError`` with the
    last line of the worker's traceback, and the line of the user's function that raised it.

    Examples
    --------
    >>> str(job_failure(RuntimeError("Job 3 cancelled")))
    'A Spark job failed: Job 3 cancelled.'
    """
    text = _JAVA_SIDE.sub("", str(error)).strip()
    last = _last_message(text)
    own = _OWN.match(last)
    kind = getattr(errors, own[1], None) if own else None
    if own and isinstance(kind, type) and issubclass(kind, LancekitError):
        message, *details = own[2].strip().split("\n")
        return kind(message, details=details)
    hint = next((hint for sign, hint in _HINTS.items() if sign in last), "")
    place = _users_line(text)
    return EngineError(f"{FAILED}{last.rstrip('.')}.", details=[place] if place else [], hint=hint)


def briefly(method: Called) -> Called:
    """Decorate a method that Spark calls, so that errors of lancekit have no traceback.

    Spark shows all frames, and the reason only after them.
    """

    @wraps(method)
    def call(*arguments: object, **named: object) -> object:
        try:
            return method(*arguments, **named)
        except LancekitError as error:
            raise error.with_traceback(None) from None

    @wraps(method)
    def generate(*arguments: object, **named: object) -> Iterator[object]:
        try:
            yield from cast("Iterator[object]", method(*arguments, **named))
        except LancekitError as error:
            raise error.with_traceback(None) from None

    return cast(Called, generate if isgeneratorfunction(method) else call)


def first_line(error: Exception) -> str:
    r"""Return Spark's message about a query, without the plan and the position in Spark's text.

    Examples
    --------
    >>> first_line(RuntimeError("No column `b`. SQLSTATE: 42703; line 1 pos 7;\n'Project"))
    'No column `b`'
    """
    line = _JAVA_SIDE.sub("", str(error)).strip().split("\n", 1)[0]
    return _PLACE.sub("", line).rstrip(".;")


def _last_message(text: str) -> str:
    if "Traceback (most" in text:
        return _REST.sub("", _LAST_FRAME.sub("", text)).strip()
    lost = _LOST_TASK.search(text)
    if lost:
        return lost[1]
    reasons = (reason for reason in _JAVA_ERROR.findall(text) if not reason.startswith(_NO_REASON))
    return str(next(reasons, text.split("\n", 1)[0])).removeprefix(_ABORTED)


def _users_line(text: str) -> str:
    """Return the last line of a traceback outside of Spark's and lancekit's code."""
    for file, line, function in reversed(_FRAME.findall(text)):
        path = Path(file)
        if not path.is_relative_to(_OWN_FOLDER) and not _LIBRARIES & {*path.parts}:
            return f"  in {function}, line {line} of {file}"
    return ""


# ---- package versions of the driver and of Spark's workers
#
# Objects from the driver carry its version of lancekit, which a worker compares before it unpickles
# them: another version may have other classes under the same names.


def unpacked(version: str, packed: bytes) -> Any:
    """Unpickle an object in a worker, after a check of the driver's version of lancekit.

    Raises SessionError: this Python has another version.
    """
    if version != __version__:
        place = f"  the worker's Python is {sys.executable} on {platform.node()}"
        raise other_package("lancekit", __version__, version, [place])
    return pickle.loads(packed)  # noqa: S301  # a driver of lancekit pickled it


def other_package(
    name: str, theirs: str, ours: str, details: Sequence[str] = (), why: str = ""
) -> SessionError:
    """Return the error for workers with another version of a package, or without it.

    name: the package.
    theirs, ours: the versions of the workers and of the driver; empty for none.
    details: further lines of the text.
    why: the reason if the workers cannot import the package.

    Examples
    --------
    >>> other_package("lancekit", "0.1.0", "0.2.0").message
    "Spark's workers have lancekit 0.1.0, but this Python has 0.2.0."
    """
    has = f"have {name} {theirs}" if theirs else f"have no {name}" + (f" ({why})" if why else "")
    return SessionError(
        f"Spark's workers {has}, but this Python has {ours}.",
        details=details,
        hint=f"Install {name} {ours} on the workers"
        + (", from its wheel or a clone" if name == "lancekit" else "")
        + ", or set PYSPARK_PYTHON to a Python with it before the session starts.",
        worker=theirs or None,
        driver=ours,
    )


class Sent:
    """Base class of objects that the driver pickles for its workers."""

    def __reduce__(self) -> tuple[object, ...]:
        return _arrived, (__version__, pickle.dumps((type(self), self.__getstate__())))


def _arrived(version: str, packed: bytes) -> object:
    kind, state = unpacked(version, packed)
    made: object = object.__new__(kind)
    made.__dict__.update(state)
    return made
