"""Lazy imports and lazy properties."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property", "door", "loaded"]


def loaded(name: str) -> Any:
    """Return an attribute of a lancekit module, which is imported if necessary.

    Used by tables that name objects instead of importing each.

    Examples
    --------
    >>> loaded("errors.LancekitError").__name__
    'LancekitError'
    """
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(f"lancekit.{module}"), attribute)


def door(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module's ``__getattr__`` that imports names on first access.

    Parameters
    ----------
    module
        The module's name.
    homes
        Modules of lancekit, and the names to take from each, separated by spaces; ``A=B`` takes
        ``B`` under the name ``A``.

    Examples
    --------
    >>> door("shop", {"errors": "Failure=LancekitError"})("Failure").__name__
    'LancekitError'
    """
    home = {
        name: f"{where}.{real or name}"
        for where, names in homes.items()
        for name, _, real in (one.partition("=") for one in names.split())
    }

    def attribute(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return loaded(home[name])

    return attribute


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801  # Python's name
        """`cached_property` of Python 3.12, which holds no lock while it computes.

        Up to 3.11 all objects of a class share a lock.  So threads computed properties of
        different objects one after the other, a process forked meanwhile could wait forever, and
        two objects that need each other could deadlock.

        Examples
        --------
        >>> class Table:
        ...     @cached_property
        ...     def rows(self):
        ...         print("counted")
        ...         return 3
        >>> table = Table()
        >>> table.rows, table.rows
        counted
        (3, 3)
        """

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            # called only without a cached value; of concurrent threads, the first one's is kept
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
