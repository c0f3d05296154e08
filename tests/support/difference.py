"""A difference to pylance that is meant, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["REFUSED", "Difference", "tried"]

REFUSED = "refused"
Show = Callable[[ModuleType, str], Any]


@dataclass(frozen=True)
class Difference:
    """What differs in words, and a program that shows it, with what it shows in each library."""

    what: str
    here: str
    there: str
    why: str
    show: Show
    shown_here: Any
    shown_there: Any


def tried(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception:  # which error it is differs, too
        return REFUSED
