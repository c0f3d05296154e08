"""Preparations that make later work on this machine faster, and are made once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lancekit._checked import checked
from lancekit._compiled import state, store
from lancekit._extras import install_hint
from lancekit._legible import warn
from lancekit._spark.session.java import make_archive
from lancekit.errors import JavaNotFoundError, NotOfferedError, SessionError


class WarmUp(NamedTuple):
    """The files that `warm_up` made or found; deleting one undoes its effect."""

    kernels: Path | None
    spark: Path | None


@checked
def warm_up(
    *, kernels: bool | None = None, spark: bool | None = None, again: bool = False
) -> WarmUp:
    """Make lancekit read and write faster, and Spark start faster, on this machine from now on.

    Kernels are compiled for this processor, which takes some seconds.  Spark is started in a
    separate process, and the classes that Java loads are written to an archive (about 160 MB),
    which takes up to a minute.  Both are stored in the user's cache folder.  Later processes use
    them automatically; this process uses the kernels from now on.

    Parameters
    ----------
    kernels
        Compile kernels, which needs the extra ``fast``; by default if that is installed.
    spark
        Make Java's archive; by default if there is a Java that Spark can use.
    again
        Make the files again if they exist.

    Returns
    -------
    WarmUp
        The file of kernels and the archive; ``None`` for a file that does not exist.

    Raises
    ------
    NotOfferedError
        Kernels were requested, and their compiler is not installed.
    JavaNotFoundError
        The archive was requested, and there is no Java that Spark can use.

    Warns
    -----
    UserWarning
        The kernels or the archive could not be made or stored; all works without them.

    Examples
    --------
    >>> warm_up(spark=False).kernels  # doctest: +SKIP
    PosixPath('/home/me/.cache/lancekit/kernels/0.1.0-544a55e6869f9ea707afd6f0')
    """
    return WarmUp(
        _kernels(again=again) if _is_wanted(kernels) else None,
        None if spark is False else _archive(needed=spark is True, again=again),
    )


def _is_wanted(kernels: bool | None) -> bool:
    if kernels and not state.is_possible():
        raise NotOfferedError(
            "kernels=True needs Numba, which is not installed.", hint=f"{install_hint('fast')}."
        )
    return state.is_possible() if kernels is None else kernels


def _kernels(*, again: bool) -> Path | None:
    try:
        store.build(wait=True, again=again)
        state.load()
        return store.file_of_kernels()
    except store.BuildError as error:
        warn(f"kernels could not be compiled ({error}); NumPy does their work.")
        return None


def _archive(*, needed: bool, again: bool) -> Path | None:
    try:
        return make_archive(again=again)
    except JavaNotFoundError:
        if needed:
            raise
        return None
    except SessionError as error:
        warn(str(error))
        return None
