"""`ShardSnapshot`: which generations of a shard are to be read."""

from __future__ import annotations

from typing import Self
from uuid import UUID

from lancekit._checked import checked_methods
from lancekit._format.mem_wal.names import generation_number
from lancekit._format.mem_wal.shard_manifest import SsTable
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError

__all__ = ["ShardSnapshot"]


@checked_methods
class ShardSnapshot:
    """Some generations of a shard, by their numbers and folders.

    Its methods change it, and return it.

    Examples
    --------
    >>> shard = "6f9b1c0e-6f0a-4c5e-9d52-0f4d1c7a9a10"
    >>> ShardSnapshot(shard).with_sstable(1, "0a1b2c3d_gen_1").shard_id == shard
    True
    """

    def __init__(self, shard_id: str) -> None:
        try:
            self._id = UUID(shard_id)
        except ValueError:
            raise InvalidArgumentError(
                f"shard_id is {shown(shard_id)}.", hint="Pass a UUID as text.", argument="shard_id"
            ) from None
        self._sstables: dict[int, SsTable] = {}
        self._spec_id = self._current = 0

    @property
    def shard_id(self) -> str:
        """The shard's UUID."""
        return str(self._id)

    def with_spec_id(self, spec_id: int) -> Self:
        """Note the sharding spec; no row depends on it."""
        self._spec_id = spec_id
        return self

    def with_current_generation(self, generation: int) -> Self:
        """Note the number of the generation that is being written; no row depends on it."""
        self._current = generation
        return self

    def with_sstable(self, generation: int, path: str) -> Self:
        """Add a generation.

        Parameters
        ----------
        generation
            Its number.
        path
            The name of its folder in the shard, as the shard's manifest has it.

        Raises
        ------
        InvalidArgumentError
            The path is no such name.
        """
        if not generation_number(path):
            raise InvalidArgumentError(
                f"path is {shown(path)}.",
                hint='Pass the name of a folder in the shard, such as "0a1b2c3d_gen_1".',
                argument="path",
            )
        self._sstables[generation] = SsTable(generation, path)
        return self

    def __repr__(self) -> str:
        """Say what it is."""
        return (
            f"ShardSnapshot(shard_id={self.shard_id!r}, spec_id={self._spec_id}, "
            f"current_generation={self._current}, sstables={sorted(self._sstables)})"
        )
