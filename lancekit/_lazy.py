"""What is loaded or worked out when it is first asked for."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property", "door", "loaded"]


def loaded(name: str) -> Any:
    """Return what a module of lancekit has; the module is loaded if it is not.

    For tables that name what they choose among: a table of objects would load all of them.

    Examples
    --------
    >>> loaded("errors.LancekitError").__name__
    'LancekitError'
    """
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(f"lancekit.{module}"), attribute)


def door(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module that gives names away when they are asked for.

    Parameters
    ----------
    module
        The module's name.
    homes
        Where the names are: modules of lancekit, and their names with spaces between; ``A=B`` is
        the name ``A`` for what is called ``B`` there.

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

    class cached_property(functools.cached_property):  # noqa: N801  # as Python calls it
        """That of Python 3.12: nobody waits for what another object works out.

        Up to 3.11 a lock is held meanwhile which all objects of a class share: threads that asked
        indices of different tables did it one after the other, a process that was forked meanwhile
        waited for ever, and two that need each other's could as well.

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
            # asked only while nothing is kept; of threads that do so at once one is first
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
