"""The manifests of a shard: how the newest one is found, and how the next one is put.

See docs/format/memwal.md, 2.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from lancekit._format.mem_wal.names import (
    MANIFEST_HINT,
    MANIFESTS,
    generation_number,
    manifest_name,
    position,
)
from lancekit._format.mem_wal.shard_manifest import (
    ShardManifest,
    encode_shard_manifest,
    parse_shard_manifest,
    with_checksum,
)
from lancekit._shards.entry import read_entry
from lancekit._shards.log import positions
from lancekit._shards.schema import Shard
from lancekit.errors import (
    CorruptFileError,
    FencedError,
    RetriesExhaustedError,
    ShardError,
    UnsupportedFeatureError,
)

#: the number of attempts to put a manifest, and the pause after the first lost race
_ATTEMPTS = 10
_PAUSE_SECONDS = 0.002

#: the number of manifests after the hint that are probed by name before the folder is listed
_PROBES = 16
#: the most bytes of a hint that are read
_HINT_BYTES = 1024


def latest(shard: Shard) -> ShardManifest | None:
    """Return the newest manifest, ``None`` if the shard has none.

    Raises CorruptFileError: the newest manifest is damaged: an older one cannot replace it, because
        rows would be missing.  Or the shard lost all of its manifests.
    """
    for _ in range(_ATTEMPTS):
        version = _after_hint(shard) or _newest_listed(shard)
        if not version:
            if not _had_manifests(shard):
                return None
            if _newest_listed(shard):  # another writer just created the shard
                continue
            raise lost_manifests(shard)
        name = manifest_name(version)
        where = f"{shard.store.uri}/{name}"
        try:
            manifest = _parsed(bytes(shard.store.read(name)), where)
        except FileNotFoundError:  # a cleanup removed it
            continue
        if (manifest.version, manifest.shard) != (version, shard.id):
            raise CorruptFileError(
                f"{where} is damaged: it declares itself version {manifest.version} of shard "
                f"{manifest.shard}.",
                hint="Restore the file from a copy.",
                file=where,
            )
        return manifest
    raise ShardError(
        f"The manifests of shard {shard.id} are removed faster than they can be read.",
        hint="Try again. The process that removes them must keep the newest ones.",
        shard=str(shard.id),
    )


# every operation on a shard parses its newest manifest
_parsed = lru_cache(maxsize=256)(parse_shard_manifest)


def _after_hint(shard: Shard) -> int:
    """Return the newest version, probing upward from the hint; 0 if the hint is unusable."""
    try:
        hint = json.loads(bytes(shard.store.read(MANIFEST_HINT, _HINT_BYTES)))
        version = hint["version"]
    except (FileNotFoundError, CorruptFileError, ValueError, TypeError, KeyError):
        return 0
    if not isinstance(version, int) or not 0 < version < 1 << 64:
        return 0
    if not shard.store.exists(manifest_name(version)):
        return 0
    for later in range(version + 1, version + _PROBES):
        if not shard.store.exists(manifest_name(later)):
            return later - 1
    return 0


def _newest_listed(shard: Shard) -> int:
    names = shard.store.list_names(MANIFESTS)
    return max((position(name) for name in names if name.endswith(".binpb")), default=0)


def _had_manifests(shard: Shard) -> bool:
    """Return True if a shard without manifests has rows, and so must have lost its manifests.

    A writer puts the first manifest before the first entry.  If this table replaced another one,
    late writers of the old table can leave entries: without manifests, and not from entry 1 on.
    Such entries do not count.
    """
    folders = shard.store.list_folders("")
    if any(map(generation_number, folders)):
        return True
    entries = positions(shard)
    if not entries:
        return False
    began = MANIFESTS in folders or shard.store.exists(MANIFEST_HINT) or entries[0] == 1
    return began and any(_may_have_rows(shard, number) for number in entries)


def _may_have_rows(shard: Shard, number: int) -> bool:
    try:
        return not read_entry(shard, number).sentinel
    except FileNotFoundError:  # the folder is being removed
        return False
    except (CorruptFileError, UnsupportedFeatureError):
        return True


def lost_manifests(shard: Shard) -> CorruptFileError:
    """Return the error for a shard that lost all of its manifests."""
    where = f"{shard.store.uri}/{MANIFESTS}"
    return CorruptFileError(
        f"Shard {shard.id} has lost its manifests: {where} has none.",
        hint=f"Restore the folder {shard.store.uri} from a copy: acknowledged rows are in it. To "
        "continue without them, ds.repair_mem_wal() copies the remaining files into its folder "
        "set_aside and restarts the shard.",
        file=where,
        shard=str(shard.id),
        lost=True,
    )


def put_next(shard: Shard, manifest: ShardManifest) -> bool:
    """Put a manifest if its version is free; return False if it is taken.

    The taken version can be this very manifest, if a store repeats a request whose answer was lost.
    """
    name = manifest_name(manifest.version)
    data = with_checksum(encode_shard_manifest(manifest), manifest.version)
    if not shard.store.put_if_absent(name, data):
        return False
    hint = json.dumps({"version": manifest.version}, separators=(",", ":"))
    shard.store.put_hint(MANIFEST_HINT, hint.encode())
    return True


def change(
    shard: Shard, epoch: int | None, edit: Callable[[ShardManifest], ShardManifest | None]
) -> ShardManifest:
    """Put the next manifest, edited from the newest one; return it.

    shard: the shard, which has a manifest.
    epoch: the epoch of the writer that makes the change, or ``None`` if the caller is not the
        writer.
    edit: returns the next manifest for the newest one, or ``None`` if nothing is left to do.
        `change` sets the version.  After a lost race it calls `edit` again, which may then find its
        work done.

    Raises FencedError: another writer has the shard.
    Raises ShardError: the shard has no manifest.
    Raises RetriesExhaustedError: another process put the next version first, at every attempt.
    """
    for attempt in range(_ATTEMPTS):
        newest = latest(shard)
        if newest is None:
            raise ShardError(
                f"Shard {shard.id} has no manifest.",
                hint="Opening a writer of the shard creates it.",
                shard=str(shard.id),
            )
        if epoch is not None and newest.writer_epoch != epoch:
            raise fenced(shard, epoch, newest.writer_epoch)
        edited = edit(newest)
        if edited is None:
            return newest
        following = replace(edited, version=newest.version + 1)
        if put_next(shard, following):
            return following
        time.sleep(_PAUSE_SECONDS * random.random() * 2**attempt)  # noqa: S311
    raise RetriesExhaustedError(
        f"Gave up on shard {shard.id}: other writers changed it {_ATTEMPTS} times in the meantime.",
        hint="Try again.",
        shard=str(shard.id),
    )


def fenced(shard: Shard, epoch: int, newer: int) -> FencedError:
    """Return the error for a writer whose shard was claimed by another writer."""
    return FencedError(
        f"This writer was fenced by another writer of shard {shard.id} (epoch {newer}, this "
        f"writer has {epoch}) and cannot write any more.",
        hint="Acknowledged rows are kept. Open a new writer, which fences the other one.",
        shard=str(shard.id),
        epoch=epoch,
        newer=newer,
    )
