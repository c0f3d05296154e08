"""Whether the places that a version reads besides its own folder still have what it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from lancekit._format import names
from lancekit._format.operations import Clone
from lancekit._legible import plural, warn
from lancekit._pipeline.engine.engine import LocalRunner
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import FileLocation, Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, LancekitError, VersionNotFoundError

__all__ = ["validate_sources"]

#: files that are named of each place
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Needed:
    """A file of a base, and what becomes of it without it."""

    base_id: int
    location: FileLocation


def validate_sources(snapshot: Snapshot) -> None:
    """Raise if a file that a version has in another place is missing, or has another size.

    A source whose version was cleaned up, though its files are there, is a warning: the next
    cleanup there may take them.

    Raises
    ------
    CorruptFileError
        Names each place, and some of its files.
    UntrustedBaseError
        A place is in a store that is not trusted.
    """
    needed = list(_needed(snapshot))
    found = LocalRunner().map(_fault, needed)
    faults: dict[int, list[str]] = {}
    for one, fault in zip(needed, found, strict=True):
        if fault:
            faults.setdefault(one.base_id, []).append(fault)
    if faults:
        raise _error(snapshot, faults)
    _warn_of_cleanup(snapshot, {snapshot.manifest.base_path(one.base_id).path for one in needed})


def _needed(snapshot: Snapshot) -> Iterator[_Needed]:
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            if file.base_id is not None:
                yield _Needed(file.base_id, snapshot.data_file(file))
        deletion, location = fragment.deletion_file, snapshot.deletion_file(fragment)
        if deletion is not None and deletion.base_id is not None and location is not None:
            yield _Needed(deletion.base_id, location)
    for index in snapshot.indices:
        if index.base_id is not None:
            store = snapshot.base_store(index.base_id)
            for part in index.files:
                name = f"{names.INDICES}/{index.uuid}/{part.path}"
                yield _Needed(index.base_id, FileLocation(store, name, part.size_bytes or None))


def _fault(needed: _Needed) -> str:
    """Return what is wrong with a file; empty if nothing is."""
    location = needed.location
    try:
        _, size = location.store.tail(location.name, 1)
    except FileNotFoundError:
        return f"{location.name} is missing"
    if location.size is not None and size != location.size:
        return f"{location.name} has {size} bytes, and had {location.size}"
    return ""


def _error(snapshot: Snapshot, faults: dict[int, list[str]]) -> CorruptFileError:
    details = []
    for base_id, wrong in faults.items():
        more = f", and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        place = snapshot.manifest.base_path(base_id).path
        details.append(f"  {place}: {'; '.join(wrong[:_NAMED])}{more}")
    total = sum(map(len, faults.values()))
    return CorruptFileError(
        f"Version {snapshot.version} of {snapshot.line.uri} lacks {plural(total, 'file')} of "
        "other places:",
        details=[*details, ""],
        hint="Bring them back there. Where other versions are whole, ds.deepen() makes copies of "
        "all that a version needs.",
        version=snapshot.version,
        bases=tuple(snapshot.manifest.base_path(base_id).path for base_id in faults),
        files=total,
    )


def _warn_of_cleanup(snapshot: Snapshot, used: Collection[str]) -> None:
    """Warn if the version is gone that a clone was made from, whose files it reads."""
    clone = _clone(snapshot) if used else None
    if clone is None or clone.ref_path not in used:
        return
    try:
        source = replace(snapshot.line, root=snapshot.line.base(clone.ref_path), branch=None)
        load_snapshot(source, clone.ref_version)
    except VersionNotFoundError:
        warn(
            f"Version {clone.ref_version} of {clone.ref_path}, which {snapshot.line.uri} was "
            "cloned from, was cleaned up: its files are there yet, and the next cleanup may take "
            "them. ds.deepen() copies them."
        )


def _clone(snapshot: Snapshot) -> Clone | None:
    """Return how a dataset was cloned, if it was, and its first version tells."""
    try:
        first = min(list_versions(snapshot.line).versions, default=None)
        done = None if first is None else load_snapshot(snapshot.line, first).transaction
    except LancekitError:
        return None
    operation = None if done is None else done.operation
    return operation if isinstance(operation, Clone) and operation.is_shallow else None
