"""Which versions of packages the driver and Spark's workers have.

Objects that the driver sends carry its version of lancekit, and a worker compares before it unpacks
them: another version may have other classes under the same names.
"""

from __future__ import annotations

import pickle
import platform
import sys
from collections.abc import Sequence
from typing import Any

from lancekit._version import __version__
from lancekit.errors import SessionError

__all__ = ["Sent", "other_package", "unpacked"]


def unpacked(version: str, packed: bytes) -> Any:
    """Unpickle an object that a driver with a version of lancekit sent to this worker.

    Raises
    ------
    SessionError
        This Python has another version.
    """
    if version != __version__:
        place = f"  the worker's Python is {sys.executable} on {platform.node()}"
        raise other_package("lancekit", __version__, version, [place])
    return pickle.loads(packed)  # noqa: S301  # a driver of lancekit's made it


def other_package(
    name: str, theirs: str, ours: str, details: Sequence[str] = (), why: str = ""
) -> SessionError:
    """Return the error for workers that have another version of a package, or none.

    Parameters
    ----------
    name
        The package.
    theirs, ours
        The versions of the workers and of the driver; empty for none.
    details
        Further lines of the text.
    why
        The reason, if the workers' package cannot be imported.

    Examples
    --------
    >>> other_package("lancekit", "0.1.0", "0.2.0").message
    "Spark's workers have lancekit 0.1.0, and this Python has 0.2.0."
    """
    has = f"have {name} {theirs}" if theirs else f"have no {name}" + (f" ({why})" if why else "")
    return SessionError(
        f"Spark's workers {has}, and this Python has {ours}.",
        details=details,
        hint=f"Install {name} {ours} where they run"
        + (", from its wheel or a clone" if name == "lancekit" else "")
        + ", or set PYSPARK_PYTHON to a Python that has it before the session starts.",
        worker=theirs or None,
        driver=ours,
    )


class Sent:
    """Base of objects that Spark pickles in the driver and unpickles in its workers."""

    def __reduce__(self) -> tuple[object, ...]:
        return _arrived, (__version__, pickle.dumps((type(self), self.__getstate__())))


def _arrived(version: str, packed: bytes) -> object:
    kind, state = unpacked(version, packed)
    made: object = object.__new__(kind)
    made.__dict__.update(state)
    return made
