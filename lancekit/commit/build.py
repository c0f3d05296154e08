"""The next manifest: one function per operation, then what all have in common.

Sources: table format, 8.4 and 10; operations, 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lancekit._version import __version__
from lancekit.errors import CorruptFileError
from lancekit.format import flags
from lancekit.format import transaction as ops
from lancekit.format.fragment import Fragment
from lancekit.format.manifest import Manifest, WriterVersion
from lancekit.format.transaction import Operation

__all__ = ["build_manifest", "first_manifest", "writer_version"]


def writer_version() -> WriterVersion:
    """Return what this library signs its versions with."""
    return WriterVersion(library="lancekit", version=__version__)


def first_manifest(operation: ops.Overwrite, storage_version: str) -> Manifest:
    """Return what version 1 is built on: an empty table of the given file version."""
    return Manifest(
        schema=operation.new_schema, fragments=(), version=0, storage_version=storage_version
    )


def build_manifest(
    latest: Manifest,
    operation: Operation,
    *,
    timestamp_ns: int,
    restored: Manifest | None = None,
    storage_version: str | None = None,
) -> Manifest:
    """Return the manifest that ``operation`` makes of ``latest``.

    `restored` is the manifest that a `Restore` names; `storage_version` is that of the files of
    an `Overwrite`.
    """
    base = _BUILDERS[type(operation)](latest, operation, restored)
    if isinstance(operation, ops.Overwrite) and storage_version is not None:
        base = replace(base, storage_version=storage_version)
    fragments = tuple(sorted(base.fragments, key=lambda f: f.id))
    _check_unique(fragments)
    known = (latest.max_fragment_id, base.max_fragment_id, *(f.id for f in fragments))
    reader, writer = _feature_flags(base, fragments)
    return replace(
        base,
        fragments=fragments,
        version=latest.version + 1,
        timestamp_ns=timestamp_ns,
        max_fragment_id=max((id_ for id_ in known if id_ is not None), default=None),
        writer=writer_version(),
        branch=latest.branch,
        reader_flags=reader,
        writer_flags=writer,
        transaction_file="",
        index_section=None,
        inline_transaction=None,
    )


def _feature_flags(manifest: Manifest, fragments: Iterable[Fragment]) -> tuple[int, int]:
    both = 0
    if any(f.deletion_file for f in fragments):
        both |= flags.DELETION_FILES
    if manifest.reader_flags & flags.STABLE_ROW_IDS:
        both |= flags.STABLE_ROW_IDS
    if manifest.base_paths:
        both |= flags.BASE_PATHS
    return both, both | (flags.TABLE_CONFIG if manifest.config else 0)


def _check_unique(fragments: tuple[Fragment, ...]) -> None:
    for one, other in pairwise(fragments):
        if one.id == other.id:
            raise CorruptFileError(
                f"The commit would produce two fragments with id {one.id}.",
                hint="The dataset was changed by a writer that reuses ids; report it.",
                fragment=one.id,
            )


def _numbered(latest: Manifest, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Give new fragments the next free ids, in order."""
    first = 0 if latest.max_fragment_id is None else latest.max_fragment_id + 1
    return tuple(replace(f, id=id_) for id_, f in enumerate(fragments, start=first))


def _append(latest: Manifest, operation: ops.Append, _: Manifest | None) -> Manifest:
    return replace(latest, fragments=(*latest.fragments, *_numbered(latest, operation.fragments)))


def _replaced(
    latest: Manifest, updated: Iterable[Fragment], removed: Iterable[int]
) -> tuple[Fragment, ...]:
    gone = frozenset(removed)
    newer = {f.id: f for f in updated}
    return tuple(newer.get(f.id, f) for f in latest.fragments if f.id not in gone)


def _delete(latest: Manifest, operation: ops.Delete, _: Manifest | None) -> Manifest:
    kept = _replaced(latest, operation.updated_fragments, operation.deleted_fragment_ids)
    return replace(latest, fragments=kept)


def _update(latest: Manifest, operation: ops.Update, _: Manifest | None) -> Manifest:
    kept = _replaced(latest, operation.updated_fragments, operation.removed_fragment_ids)
    return replace(latest, fragments=kept + _numbered(latest, operation.new_fragments))


def _overwrite(latest: Manifest, operation: ops.Overwrite, _: Manifest | None) -> Manifest:
    # ids go on after the highest ever used: readers of old versions cache by id
    return replace(
        latest,
        schema=operation.new_schema,
        fragments=_numbered(latest, operation.fragments),
        config={**latest.config, **operation.config_upsert_values},
        base_paths=latest.base_paths + operation.initial_bases,
    )


def _restore(latest: Manifest, _: ops.Restore, restored: Manifest) -> Manifest:
    # a rewound counter would give out the same row ids twice
    return replace(restored, next_row_id=max(latest.next_row_id, restored.next_row_id))


_BUILDERS: Mapping[type, Callable[[Manifest, Any, Any], Manifest]] = {
    ops.Append: _append,
    ops.Delete: _delete,
    ops.Update: _update,
    ops.Overwrite: _overwrite,
    ops.Restore: _restore,
}
