"""A call that was told before it is made: what explanations hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lancekit.errors import InvalidArgumentError, NotOfferedError

#: the arguments of a call, by the names of the parameters
Arguments: TypeAlias = Mapping[str, Any]


class Call:
    """A method with its arguments; it is called once, and stays in the process that has the handle.

    Parameters
    ----------
    method
        What is called.
    arguments, keywords
        Its arguments.
    """

    def __init__(
        self, method: Callable[..., object], *arguments: object, **keywords: object
    ) -> None:
        self._method, self._arguments, self._keywords = method, arguments, keywords
        self._is_over = False

    def make(self) -> object:
        """Make the call.

        Raises
        ------
        InvalidArgumentError
            It was made before.
        """
        if self._is_over:
            raise InvalidArgumentError("This was applied already.", hint="Explain it anew.")
        made = self._method(*self._arguments, **self._keywords)
        self._is_over = True
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return type(None), ()


def applied(call: Call | None) -> Any:
    """Make the call that an explanation holds, if it holds one."""
    if call is None:
        raise NotOfferedError(
            "This explanation holds no call.",
            hint="Call the method itself; of a merge, preview(rows) gives a plan to apply.",
        )
    return call.make()
