"""Deferred calls, which explanations contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lancekit.errors import InvalidArgumentError, NotOfferedError

#: arguments of a call, by parameter name
Arguments: TypeAlias = Mapping[str, Any]


class Call:
    """Deferred method call; it runs once, and only in the process of its handle.

    Parameters
    ----------
    method
        The method.
    arguments, keywords
        Its arguments.
    """

    def __init__(
        self, method: Callable[..., object], *arguments: object, **keywords: object
    ) -> None:
        self._method, self._arguments, self._keywords = method, arguments, keywords
        self._is_over = False

    def make(self) -> object:
        """Run the call.

        Raises
        ------
        InvalidArgumentError
            It has already run.
        """
        if self._is_over:
            raise InvalidArgumentError(
                "This explanation was already applied.", hint="Explain it again."
            )
        result = self._method(*self._arguments, **self._keywords)
        self._is_over = True
        return result

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()


def applied(call: Call | None) -> Any:
    """Run the call of an explanation; raise an error if it has none."""
    if call is None:
        raise NotOfferedError(
            "This explanation cannot be applied.",
            hint="Call the method itself. For a merge, use preview(rows).",
        )
    return call.make()
