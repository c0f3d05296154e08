"""`TableIndices`: the indices of a table, with their coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from lancekit._api.hinting import hinting_operators
from lancekit._api.listed import FramedByName
from lancekit._operations.index.create import segments_of
from lancekit._operations.index.describe import IndexCoverage, index_coverage
from lancekit._versions.snapshot import Snapshot


@hinting_operators("__call__ __delitem__ __setitem__")
class TableIndices(FramedByName, Mapping[str, IndexCoverage]):
    """The indices of the handle's version, by name.

    Each index has a `description`, the fragments that it does not cover, with the versions that
    added them (`uncovered`), and the call that indexes these fragments (`mended_by`).

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": range(1000)}, "memory://table-indices-example")
    >>> _ = ds.create_scalar_index("id", "BTREE")
    >>> _ = ds.insert({"id": [1000, 1001]})
    >>> found = ds.indices["id_idx"]
    >>> [(part.operation, part.version, part.num_rows) for part in found.uncovered]
    [('Append', 3, 2)]
    >>> found.mended_by
    "ds.optimize.optimize_indices(index_names=['id_idx'])"
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot  # called each time, because the handle moves

    def _found(self) -> dict[str, IndexCoverage]:
        return {index.name: index for index in index_coverage(self._snapshot())}

    def __getitem__(self, name: str) -> IndexCoverage:
        segments_of(self._snapshot(), name)
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _described(self) -> tuple[Iterable[object], tuple[str, ...]]:
        columns = ("name", "index_type", "field_names", "num_rows_indexed")
        found = (
            {name: getattr(one.description, name) for name in columns} | {"share": one.share}
            for one in self._found().values()
        )
        return found, (*columns, "share")

    def _ipython_key_completions_(self) -> list[str]:
        return sorted({index.name for index in self._snapshot().indices if not index.is_system})

    def _plain(self) -> str:
        return ", ".join(self) or "no indices"
