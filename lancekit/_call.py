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
            raise InvalidArgumentError("This was applied already.", hint="Explain it anew.")
        result = self._method(*self._arguments, **self._keywords)
        self._is_over = True
        return result

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()


def applied(call: Call | None) -> Any:
    """Run the call of an explanation; raise an error if it has none."""
    if call is None:
        raise NotOfferedError(
            "This explanation holds no call.",
            hint="Call the method itself; of a merge, preview(rows) gives a plan to apply.",
        )
    return call.make()
