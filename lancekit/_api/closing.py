"""What is closed at the end of a `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

from lancekit.errors import LancekitError

__all__ = ["Closing"]


class Closing(ABC):
    """A `with` closes it; after an error, too, whose place no error of closing takes.

    Examples
    --------
    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door():
    ...     pass
    closed
    """

    @abstractmethod
    def close(self) -> None:
        """Be done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        with suppress(LancekitError):  # what went wrong first is what counts
            self.close()
