"""Lists of sampled rows, which IPython shows as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from lancekit._display import TEXT, Displayed
from lancekit.options import options

T = TypeVar("T")


class SampledRows(Displayed, list[T]):
    """List of sampled rows, of `total` rows; its `repr` is that of a list.

    Examples
    --------
    >>> SampledRows([3, 4], total=9)
    [3, 4]
    """

    total: int

    def __init__(self, rows: Iterable[T] = (), total: int = 0) -> None:
        super().__init__(rows)
        self.total = total

    def __repr__(self) -> str:
        return list.__repr__(self)

    def _drawn(self, *kinds: str) -> dict[str, str]:
        return super()._drawn(*kinds) if options.show_tables else {TEXT: repr(self)}
