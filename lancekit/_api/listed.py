"""Lists of descriptions, and containers, that convert to frames of pandas and Polars."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lancekit._display import Displayed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

T = TypeVar("T")


class Framed(Displayed):
    """Base of lists of descriptions: `to_pandas` and `to_polars` return them as rows.

    ``pl.DataFrame(it)`` makes the same rows of a container that is no `list`.
    """

    __slots__ = ()

    def _described(self) -> tuple[Iterable[object], tuple[str, ...]]:
        """Return the items, and the columns: keys of mappings, or attributes of objects."""
        raise NotImplementedError

    def _rows(self) -> Iterator[dict[str, object]]:
        items, columns = self._described()
        return ({name: value_of(item, name) for name in columns} for item in items)

    def to_pandas(self) -> pd.DataFrame:
        """Return the items as rows of a pandas DataFrame, which can be empty."""
        import pandas as pd

        return pd.DataFrame([*self._rows()], columns=[*self._described()[1]])

    def to_polars(self) -> pl.DataFrame:
        """Return the items as rows of a Polars DataFrame, with the columns of `to_pandas`."""
        from lancekit._pipeline.frames import polars_frame

        return polars_frame(self._table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table().__arrow_c_stream__(requested_schema)

    def _table(self) -> pa.Table:
        columns = {name: list[object]() for name in self._described()[1]}
        for row in self._rows():
            for name, value in row.items():
                columns[name].append(_as_cell(value))
        return pa.table(columns)


def _as_cell(value: object) -> object:
    """Return sets and tuples as lists, which Arrow takes."""
    if isinstance(value, Collection) and not isinstance(value, str | Mapping):
        return [*value]
    return value


class FramedByName(Framed):
    """Base of containers that are no lists: ``pd.DataFrame(it)`` makes the rows of `to_pandas`."""

    __slots__ = ()

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        del dtype, copy  # pandas makes columns of the fields of data classes
        from dataclasses import make_dataclass

        row = make_dataclass("Row", self._described()[1])
        found = [row(**one) for one in self._rows()]
        array = np.empty(len(found), object)
        array[:] = found
        return array


class Listed(Framed, list[T]):
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

    def _described(self) -> tuple[Iterable[object], tuple[str, ...]]:
        return self, self._columns


def value_of(item: object, name: str) -> object:
    """Return an item's value of a column."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name)
