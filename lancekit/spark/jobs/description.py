"""What Spark's pages call a job: what the user called, of which version, and what is done."""

from __future__ import annotations

from typing import Any

from lancekit.checked import outermost
from lancekit.versions.snapshot import Snapshot

__all__ = ["described"]

#: what hold a dataset call it
_HOLDERS = ("_handle", "_dataset", "_ds")
#: methods whose names say less than those of what made their object
_SAID = {"MergeInsertBuilder": "merge_insert"}


def described(what: str, detail: str = "") -> str:
    """Return words for a job that the current call starts.

    Parameters
    ----------
    what
        What a progress bar calls it.
    detail
        More of that.

    Examples
    --------
    >>> described("merging", "12 tasks")
    'lancekit: merging, 12 tasks'
    """
    called, told = outermost(), ", ".join(filter(None, (what, detail)))
    if called is None:
        return f"lancekit: {told}"
    owner, _, name = called[0].rpartition(".")
    said = _SAID.get(owner, name)
    subject = _subject(called[1][0]) if called[1] else ""
    return f"lancekit {said} {subject}".rstrip() + f": {told}"


def _subject(owner: Any) -> str:
    """Return a version as users name it, of what is a dataset or holds one."""
    if not type(owner).__module__.startswith("lancekit."):
        return ""  # rows: a DataFrame takes any name for a column's
    snapshot = getattr(owner, "_snapshot", None)
    if isinstance(snapshot, Snapshot):
        place = snapshot.line.root.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")
        branch, version = snapshot.reference
        return f"{place} {branch}:{version}"
    held = (getattr(owner, holder, None) for holder in _HOLDERS)
    return next((_subject(one) for one in held if one is not None), "")
