"""`Listed`: a list of descriptions that also converts to a pandas frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from lancekit._display import Displayed

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


class Listed(Displayed, list[T]):
    """A list whose items have the same columns: keys of mappings, or attributes of objects.

    Notebooks show it as a table; its `repr` is the one of a list.

    Examples
    --------
    >>> Listed([{"name": "x_idx", "version": 2}], ("name", "version")).to_pandas().shape
    (1, 2)
    """

    def __init__(self, items: Iterable[T], columns: tuple[str, ...]) -> None:
        super().__init__(items)
        self._columns = columns

    def __repr__(self) -> str:
        return list.__repr__(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the items as rows of a pandas DataFrame."""
        return frame_of(self, self._columns)


def frame_of(items: Iterable[object], columns: tuple[str, ...]) -> pd.DataFrame:
    """Return a pandas DataFrame with a row for each item, also if there is none."""
    import pandas as pd

    rows = [{name: value_of(item, name) for name in columns} for item in items]
    return pd.DataFrame(rows, columns=list(columns))


def value_of(item: object, name: str) -> object:
    """Return an item's value of a column."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name)
