"""`Listed`: a list of descriptions that also converts to a pandas frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


class Listed(list[T]):
    """A list whose items have the same columns: keys of mappings, or attributes of objects.

    Examples
    --------
    >>> Listed([{"name": "x_idx", "version": 2}], ("name", "version")).to_pandas().shape
    (1, 2)
    """

    def __init__(self, items: Iterable[T], columns: tuple[str, ...]) -> None:
        super().__init__(items)
        self._columns = columns

    def to_pandas(self) -> pd.DataFrame:
        """Return the items as rows of a pandas DataFrame."""
        return frame_of(self, self._columns)


def frame_of(items: Iterable[object], columns: tuple[str, ...]) -> pd.DataFrame:
    """Return a pandas DataFrame with a row for each item, also if there is none."""
    import pandas as pd

    rows = [{name: _cell(item, name) for name in columns} for item in items]
    return pd.DataFrame(rows, columns=list(columns))


def _cell(item: object, name: str) -> object:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name)
