"""What may stand in the place of a file or a folder of a dataset that somebody else has sent."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["SPECIALS", "link", "move", "replace_by"]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)  # a path of its own may be too long


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _link_to_fifo(path: Path) -> None:
    other = path.with_name(f"{path.name}.other")
    os.mkfifo(other)
    path.symlink_to(other.name)


#: by name: what makes a thing at a path that no writer of Lance makes there
SPECIALS: Mapping[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a link to a FIFO": _link_to_fifo,
    "a socket": _socket,
    "zeros without end": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a folder": os.mkdir,
    "a terabyte of holes": _sparse,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a secret": lambda path: path.symlink_to("/etc/passwd"),
    "a file of the kernel": lambda path: path.symlink_to("/proc/self/mem"),
    "an empty file": Path.touch,
}


def replace_by(path: Path, make: Callable[[Path], object]) -> None:
    """Put something in the place of a file."""
    path.unlink(missing_ok=True)
    make(path)


def link(place: Path, target: Path | str) -> None:
    """Put a link in the place of a folder; what was in it is gone."""
    if place.exists():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def move(place: Path, to: Path) -> None:
    """Move a folder, and leave a link to where it is now."""
    shutil.move(place, to)
    place.symlink_to(to)
