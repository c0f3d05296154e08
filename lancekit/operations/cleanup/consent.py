"""Whose wish an automatic cleanup is: the user's own, or one that came with the dataset.

A table's config is data from whoever wrote it, and some of it removes versions at the next commit,
whoever makes that.  So settings are followed that this user's lancekit wrote at this place, or to
which the user has agreed there once (`options.trusted_cleanup`).  What is known of that is kept
outside of datasets, where nobody else can put it: a small file for each dataset and its settings.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from lancekit.legible import clean, warn
from lancekit.options import options
from lancekit.storage.places import is_below
from lancekit.versions.snapshot import Snapshot

__all__ = ["PREFIX", "agree", "is_agreed"]

PREFIX = "lance.auto_cleanup."

#: what is known in this process, of datasets in its memory too
_agreed: set[str] = set()
_warned: set[str] = set()


def agree(snapshot: Snapshot) -> None:
    """Remember that the user wants the settings that a dataset has."""
    wish = _wish(snapshot)
    if wish in _agreed:
        return
    _agreed.add(wish)
    file = _file(wish)
    if file is None or snapshot.line.root.uri.startswith("memory:"):
        return
    with suppress(OSError):  # then the next process asks
        file.parent.parent.mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_text(wish + "\n", encoding="utf-8")


def is_agreed(snapshot: Snapshot) -> bool:
    """Tell whether the user wants the settings that a dataset has; warn once if that is not known.

    Agreeing by the option is remembered.
    """
    wish, uri = _wish(snapshot), snapshot.line.root.uri
    if wish in _agreed:
        return True
    file = _file(wish)
    if file is not None and file.is_file():
        _agreed.add(wish)
        return True
    if any(is_below(place, prefix) for place in _places(uri) for prefix in options.trusted_cleanup):
        agree(snapshot)
        return True
    if wish not in _warned:
        _warned.add(wish)
        said = clean(", ".join(f"{name}={text!r}" for name, text in _settings(snapshot).items()))
        warn(
            f"{clean(uri)} asks for automatic cleanup of its old versions ({said}), and nothing "
            "was removed: you did not ask for that here with lancekit. If you want it, say so "
            f"once: lancekit.options.trusted_cleanup = [{uri!r}]. If not: "
            "ds.optimize.disable_auto_cleanup()."
        )
    return False


def _settings(snapshot: Snapshot) -> dict[str, str]:
    found = snapshot.manifest.config.items()
    return {key.removeprefix(PREFIX): text for key, text in sorted(found) if key.startswith(PREFIX)}


def _wish(snapshot: Snapshot) -> str:
    """Return a text that is the same for the same settings of the same dataset."""
    uri = snapshot.line.root.uri
    wish = {"place": _places(uri)[-1], "folder": _folder(uri), "settings": _settings(snapshot)}
    return json.dumps(wish, sort_keys=True)


def _places(uri: str) -> tuple[str, ...]:
    """Return a place as it is called, and where that is."""
    return (uri,) if "://" in uri else (uri, os.path.realpath(uri))


def _folder(uri: str) -> int:
    """Return what tells a folder of a disk from one put there later; 0 where nothing does."""
    try:
        return 0 if "://" in uri else Path(uri).stat().st_ino
    except OSError:
        return 0


def _file(wish: str) -> Path | None:
    """Return the file that stands for a wish; ``None`` where this user has no place for it."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        # a relative one is to be ignored, by the specification
        state = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "lancekit" / "cleanup" / hashlib.sha256(wish.encode()).hexdigest()
