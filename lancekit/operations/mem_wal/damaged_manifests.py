"""Manifests of a shard that are damaged, or that the log contradicts, and the one that stands in.

See docs/format/memwal.md, 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lancekit.errors import CorruptFileError, RetriesExhaustedError, UnsupportedFeatureError
from lancekit.format.mem_wal.names import ASIDE, MANIFESTS, manifest_name, position
from lancekit.format.mem_wal.shard_manifest import ShardManifest, parse_shard_manifest
from lancekit.shards.entry import read_entry
from lancekit.shards.log import contradiction, positions
from lancekit.shards.manifests import put_next
from lancekit.shards.shard import Shard

__all__ = ["Standing", "moved_aside", "put_over", "standing"]


class Standing(NamedTuple):
    """The newest manifest of a shard that can be used.

    Attributes
    ----------
    manifest
        The manifest; ``None`` if there is none.
    newest
        The version of the newest manifest that is there, whatever its state; 0 if there is none.
    faulty
        Why each manifest that cannot be used is none: by version, newer ones first.
    """

    manifest: ShardManifest | None
    newest: int
    faulty: Mapping[int, str]

    @property
    def is_newest(self) -> bool:
        """Whether it is the newest one that is there."""
        return self.manifest is not None and self.manifest.version == self.newest


def standing(shard: Shard) -> Standing:
    """Look for the newest manifest that is whole and that no entry of the log contradicts.

    Older manifests need to be whole: a cleanup reads them.
    """
    names = shard.store.list_names(MANIFESTS)
    versions = {position(name) for name in names if name.endswith(".binpb")} - {0}
    found, faulty = None, dict[int, str]()
    for version in sorted(versions, reverse=True):
        where = f"{shard.store.uri}/{manifest_name(version)}"
        try:
            manifest = parse_shard_manifest(bytes(shard.store.read(manifest_name(version))), where)
        except FileNotFoundError:  # a cleanup removed it
            continue
        except CorruptFileError as error:
            faulty[version] = error.message
            continue
        if (manifest.version, manifest.shard) != (version, shard.id):
            said = f"version {manifest.version} of shard {manifest.shard}"
            faulty[version] = f"{where} is damaged: it says that it is {said}."
        elif found is None:
            if told := contradiction(shard, manifest):
                faulty[version] = f"{where} and the write-ahead log contradict each other: {told}."
            else:
                found = manifest
    return Standing(found, max(versions, default=0), faulty)


def put_over(shard: Shard, manifest: ShardManifest, newest: int, merged: int) -> ShardManifest:
    """Put a manifest on top of newer ones that are faulty; its epoch is above all that were.

    What the manifest does not say of later generations, the log says, and the marks of the table.

    Raises
    ------
    RetriesExhaustedError
        Another writer was first.
    """
    epoch, done = manifest.writer_epoch + newest - manifest.version, manifest.replay_after
    for number in positions(shard):
        try:
            entry = read_entry(shard, number)
        except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
            continue
        epoch = max(epoch, entry.epoch)
        if entry.generation is not None and entry.generation <= merged:
            done = max(done, number)
    following = replace(
        manifest,
        version=newest + 1,
        writer_epoch=epoch + 1,
        replay_after=done,
        current_generation=max(manifest.current_generation, merged + 1),
        sstables=tuple(table for table in manifest.sstables if table.generation > merged),
    )
    if put_next(shard, following):
        return following
    raise RetriesExhaustedError(
        f"Shard {shard.id} was changed by another writer while it was repaired.",
        hint="Try again.",
        shard=str(shard.id),
    )


def moved_aside(shard: Shard, version: int) -> str:
    """Move a manifest aside, durably; return its name there."""
    name = manifest_name(version)
    aside = f"{ASIDE}/{name}"
    shard.store.put(aside, shard.store.read(name))
    shard.store.delete(name)
    return aside
