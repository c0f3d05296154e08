"""Batches for training, and the share of each process.

Names follow ``lance.sampler``.  Seeded orders are the same as in the reference.
"""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from math import ceil
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.fragment import LanceFragment
from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.lance_dataset import dataset as open_dataset
from lancekit._arguments.checks import check_count
from lancekit._checked import checked_methods
from lancekit._choice import check_choice
from lancekit._legible import warn
from lancekit._pylance.sampling import batches_of
from lancekit.errors import InvalidArgumentError, NotOfferedError

T = TypeVar("T")
Columns = list[str] | dict[str, str] | None

#: the size of the shuffle buffer, in batches, for a stream of unknown length
_BUFFERED = 256


class Sampler(ABC):
    """Base class of samplers, which yield batches of a dataset in an order of their own."""

    @abstractmethod
    def __call__(
        self,
        dataset: LanceDataset,
        *args: object,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,  # noqa: A002
        batch_readahead: int = 16,
        with_row_id: bool | None = False,
        **kwargs: object,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; arguments as in `LanceDataset.scanner`."""


class FragmentSampler(Sampler):
    """Base class of samplers that scan the fragments of `iter_fragments`, in its order."""

    def __call__(
        self,
        dataset: LanceDataset,
        *args: object,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,  # noqa: A002
        batch_readahead: int = 16,
        with_row_id: bool | None = False,
        **kwargs: object,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; arguments as in `LanceDataset.scanner`, others go to `iter_fragments`."""
        scan = dataset.scanner(
            batch_size=batch_size,
            columns=columns,
            filter=filter,
            with_row_id=bool(with_row_id),
            batch_readahead=batch_readahead,
            fragments=[*self.iter_fragments(dataset, *args, **kwargs)],
        )
        yield from scan.to_batches()

    @abstractmethod
    def iter_fragments(
        self, dataset: LanceDataset, *args: object, **kwargs: object
    ) -> Iterator[LanceFragment]:
        """Yield the fragments to scan.

        Parameters
        ----------
        dataset
            The dataset.
        args, kwargs
            Further arguments of the call of the sampler; lancekit's samplers ignore them.

        Returns
        -------
        iterator of LanceFragment
            The fragments in the order of the scan.

        Raises
        ------
        AttributeError
            ``dataset`` is not a `LanceDataset`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(6)}, "memory://share-example", max_rows_per_file=2)
        >>> [one.fragment_id for one in FullScanSampler().iter_fragments(ds)]
        [0, 1, 2]
        >>> [one.fragment_id for one in ShardedFragmentSampler(1, 2).iter_fragments(ds)]
        [1]
        """


class FullScanSampler(FragmentSampler):
    """Scans all fragments, in the dataset's order."""

    def iter_fragments(
        self, dataset: LanceDataset, *_: object, **__: object
    ) -> Iterator[LanceFragment]:
        """Yield all fragments."""
        yield from dataset.get_fragments()


class _Sharded:
    """The share of one process, and its shuffling."""

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        _check_share(rank, world_size)
        self._rank, self._world_size = rank, world_size
        self._randomize, self._seed, self._epoch = randomize, seed, 0

    @classmethod
    def from_torch(cls, randomize: bool = False, seed: int = 0) -> Self:
        """Return the sampler for this process of PyTorch's distributed group.

        Parameters
        ----------
        randomize, seed
            As in the class.

        Returns
        -------
        ShardedFragmentSampler or ShardedBatchSampler
            The sampler.

        Raises
        ------
        NotOfferedError
            PyTorch is not installed.

        Examples
        --------
        >>> sampler = ShardedBatchSampler.from_torch(randomize=True)  # doctest: +SKIP
        """
        return cls(*_torch_share(), randomize=randomize, seed=seed)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; it only reorders `ShardedFixedBatchSampler` and batches with a filter."""
        self._epoch = epoch

    def _mixed(self, items: list[T], seed: int) -> list[T]:
        if self._randomize:
            random.Random(seed).shuffle(items)  # noqa: S311
        return items


class ShardedFragmentSampler(_Sharded, FragmentSampler):
    """Scans every ``world_size``-th fragment, starting at number ``rank``.

    Parameters
    ----------
    rank, world_size
        The number of this process, and the number of processes.
    randomize, seed
        Whether to shuffle the fragments first, and the seed.  They must be equal in all processes.
    """

    def iter_fragments(
        self, dataset: LanceDataset, *_: object, **__: object
    ) -> Iterator[LanceFragment]:
        """Yield the fragments of this process."""
        fragments = self._mixed([*dataset.get_fragments()], self._seed)
        yield from fragments[self._rank :: self._world_size]


class ShardedBatchSampler(_Sharded, Sampler):
    """Reads every ``world_size``-th batch; with a filter, every ``world_size``-th matching row.

    Parameters
    ----------
    rank, world_size
        The number of this process, and the number of processes.
    randomize, seed
        Whether to shuffle the batches of this process, and the seed.  With a filter, batches are
        shuffled within a buffer.
    """

    def __call__(
        self,
        dataset: LanceDataset,
        *args: object,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,  # noqa: A002
        batch_readahead: int = 16,
        with_row_id: bool | None = None,
        **kwargs: object,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; ``with_row_id`` needs a filter."""
        del args, kwargs
        check_count("batch_size", batch_size, least=1)
        if filter is not None:
            scan = dataset.scanner(
                columns=columns,
                filter=filter,
                batch_readahead=batch_readahead,
                with_row_id=bool(with_row_id),
            )
            return self._drawn(self._share(scan.to_batches(), batch_size))
        if with_row_id:
            warn("with_row_id has no effect for a ShardedBatchSampler without a filter")
        ranges = _ranges(dataset.count_rows(), batch_size, self._rank, self._world_size)
        return _taken(dataset, self._mixed(ranges, self._seed), columns)

    def _share(self, rows: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Yield every ``world_size``-th row, in batches of ``size`` rows."""
        skip, held, waiting = self._rank, 0, []
        for batch in rows:
            mine = ak.take(batch, np.arange(skip, batch.num_rows, self._world_size))
            skip = (skip - batch.num_rows) % self._world_size
            waiting.append(mine)
            held += mine.num_rows
            while held >= size:
                table = pa.Table.from_batches(waiting)
                yield from batches_of(table.slice(0, size))
                waiting, held = table.slice(size).to_batches(), held - size
        if held:
            yield from batches_of(pa.Table.from_batches(waiting))

    def _drawn(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches in random order, from a shuffle buffer."""
        if not self._randomize:
            yield from batches
            return
        rng, waiting = random.Random(self._seed + self._epoch), []  # noqa: S311
        for batch in batches:
            waiting.append(batch)
            if len(waiting) > _BUFFERED:
                yield waiting.pop(rng.randrange(len(waiting)))
        rng.shuffle(waiting)
        yield from waiting


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Yields lists of positions: each process has its own range of rows, cut into batches.

    Parameters
    ----------
    rank, world_size, randomize, seed
        As in `ShardedBatchSampler`.
    batch_size
        The number of rows of a batch; the last batch can have fewer.
    total_num_rows
        The number of rows of the dataset.

    Examples
    --------
    >>> [*ShardedFixedBatchSampler(1, 2, batch_size=2, total_num_rows=6)]
    [[3, 4], [5]]
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        super().__init__(rank, world_size, randomize, seed)
        check_count("total_num_rows", total_num_rows)
        self._size = check_count("batch_size", batch_size, least=1 if total_num_rows else 0)
        share = ceil(total_num_rows / world_size)
        first = min(rank * share, total_num_rows)
        self._rows = range(first, min(first + share, total_num_rows))
        self._most = ceil(share / self._size) if self._size else 0

    @staticmethod
    def from_torch(  # type: ignore[override]  # as the reference has it
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """Return the sampler for this process of PyTorch's distributed group.

        Parameters
        ----------
        batch_size, total_num_rows, randomize, seed
            As in the class.

        Returns
        -------
        ShardedFixedBatchSampler
            The sampler.

        Raises
        ------
        NotOfferedError
            PyTorch is not installed.

        Examples
        --------
        >>> sampler = ShardedFixedBatchSampler.from_torch(32, 10_000)  # doctest: +SKIP
        """
        share = _torch_share()
        return ShardedFixedBatchSampler(*share, randomize, seed, batch_size, total_num_rows)

    def __len__(self) -> int:
        """Return the largest number of batches of any process."""
        return self._most

    def __iter__(self) -> Iterator[list[int]]:
        starts = range(0, len(self._rows), self._size or 1)
        batches = [[*self._rows[start : start + self._size]] for start in starts]
        yield from self._mixed(batches, self._seed + self._epoch)


@checked_methods
class ShardedBatchIterator:
    """Yields this process's share of a dataset.  In the reference, samplers have replaced it.

    Parameters
    ----------
    data
        A handle, or the path or URI of the dataset.
    rank, world_size
        The number of this process, and the number of processes.
    columns, batch_size, batch_readahead, with_row_id
        As in `LanceDataset.scanner`.
    granularity
        ``"fragment"`` or ``"batch"``: the unit that is distributed over the processes.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | LanceDataset,
        rank: int,
        world_size: int,
        *,
        columns: list[str] | dict[str, str] | None = None,
        batch_size: int = 1024 * 10,
        granularity: str = "fragment",
        batch_readahead: int = 8,
        with_row_id: bool = False,
    ) -> None:
        _check_share(rank, world_size)
        check_choice("granularity", granularity, ["fragment", "batch"])
        if with_row_id and granularity == "batch":
            raise NotOfferedError(
                'with_row_id is not supported with granularity="batch".',
                hint='Pass granularity="fragment".',
            )
        self._dataset = data if isinstance(data, LanceDataset) else open_dataset(data)
        self._share = (rank, world_size)
        self._by_batch = granularity == "batch"
        self._size = check_count("batch_size", batch_size, least=1)
        self._columns = columns
        self._options: dict[str, Any] = {
            "batch_readahead": batch_readahead,
            "with_row_id": with_row_id,
        }

    @staticmethod
    def from_torch(
        data: str | os.PathLike[str] | LanceDataset,
        *,
        columns: list[str] | dict[str, str] | None = None,
        batch_size: int = 1024 * 10,
        granularity: str = "fragment",
        batch_readahead: int = 8,
        with_row_id: bool = False,
    ) -> ShardedBatchIterator:
        """Return the iterator for this process of PyTorch's distributed group."""
        return ShardedBatchIterator(
            data,
            *_torch_share(),
            columns=columns,
            batch_size=batch_size,
            granularity=granularity,
            batch_readahead=batch_readahead,
            with_row_id=with_row_id,
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._by_batch:
            ranges = _ranges(self._dataset.count_rows(), self._size, *self._share)
            return _taken(self._dataset, ranges, self._columns)
        sampler = ShardedFragmentSampler(*self._share)
        return sampler(self._dataset, batch_size=self._size, columns=self._columns, **self._options)


def _check_share(rank: int, world_size: int) -> None:
    check_count("world_size", world_size, least=1)
    if check_count("rank", rank) >= world_size:
        raise InvalidArgumentError(f"rank must be from 0 to {world_size - 1}, got {rank}.")


def _ranges(total: int, size: int, rank: int, world_size: int) -> list[range]:
    """Return the positions of the rows of every ``world_size``-th batch."""
    starts = range(rank * size, total, world_size * size)
    return [range(start, min(start + size, total)) for start in starts]


def _taken(ds: LanceDataset, ranges: list[range], columns: Columns) -> Iterator[pa.RecordBatch]:
    for rows in ranges:
        yield from batches_of(ds.take(pa.array(np.arange(rows.start, rows.stop)), columns))


def _torch_share() -> tuple[int, int]:
    try:
        from torch import distributed
    except ImportError as error:
        raise NotOfferedError(
            "The rank of a PyTorch process needs the package torch.",
            hint="Pass rank and world_size, or install torch.",
        ) from error
    return distributed.get_rank(), distributed.get_world_size()
