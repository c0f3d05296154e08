"""Folders for new data files, and removal of these files if the commit fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lancekit._commit.manifest.draft import check_format, with_bases
from lancekit._defaults import MAX_BYTES_PER_FILE
from lancekit._format.fragment import Fragment
from lancekit._format.manifest import BasePath
from lancekit._format.names import DATA
from lancekit._legible import shown
from lancekit._pipeline.write_rows import WriteTarget, WriteTask, delete_fragments
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitUnknownError, InvalidArgumentError, LancekitError
from lancekit.options import options


def write_task(
    snapshot: Snapshot,
    storage_version: str | None = None,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
) -> WriteTask:
    """Return the task that writes rows to add to a version.

    Raises InvalidArgumentError: the version's files have another format than the requested one.
    """
    if storage_version is not None:
        check_format(snapshot.manifest, storage_version)
    return WriteTask(
        store=snapshot.store,
        schema=snapshot.manifest.schema,
        storage_version=storage_version or snapshot.manifest.new_file_version,
        max_bytes_per_file=max_bytes_per_file,
        checksums=options.checksums,
        optimize_for=options.optimize_for,
    )


@contextmanager
def undone_unless_landed(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` if the commit in the block certainly did not land.

    Only errors of lancekit are certain.  After an interrupt or a `CommitUnknownError`, the version
    may exist, so its files stay.  A cleanup removes them if nothing refers to them.
    """
    try:
        yield
    except CommitUnknownError:
        raise
    except LancekitError:
        undo()
        raise


def removed_unless_landed(
    store: Store, fragments: Iterable[Fragment], places: Iterable[WriteTarget] = ()
) -> AbstractContextManager[None]:
    """Remove the files of new fragments if the commit in the block certainly did not land."""
    return undone_unless_landed(lambda: delete_fragments(store, fragments, places))


# ---- folders of new data files: the dataset's own, or base paths


def bases_of(current: Snapshot | None, new: Sequence[BasePath]) -> tuple[BasePath, ...]:
    """Return the base paths of an existing dataset, or the checked base paths of a new one.

    Raises InvalidArgumentError: new base paths for an existing dataset, or a repeated name, path
        or id.
    """
    if current is None:
        return with_bases((), new)
    if new:
        raise InvalidArgumentError(
            "Cannot register new bases in Append mode, nor when overwriting: initial_bases are "
            "for a new dataset.",
            hint="Add them with add_bases().",
        )
    return current.manifest.base_paths


def write_targets(
    location: BranchLocation,
    bases: Sequence[BasePath],
    wanted: Sequence[str],
    *,
    every: bool,
    primary: bool = True,
) -> tuple[WriteTarget, ...]:
    """Return the folders to write files to in turn; empty for the dataset's own folder alone.

    bases: the dataset's base paths.
    wanted: names or paths of base paths to write to; the dataset's own URI stands for its folder.
    every: write to all base paths instead.
    primary: with ``every``, write to the dataset's own folder, too.

    Raises InvalidArgumentError: no base path has a requested name, both ``wanted`` and ``every``
        were given, or there is no folder to write to.
    Raises UntrustedBaseError: a base path is in a store that is not trusted.
    """
    if every and wanted:
        raise InvalidArgumentError(
            "target_bases and target_all_bases exclude each other.", hint="Pass one of the two."
        )
    if every:
        ordered = sorted(bases, key=lambda base: base.id)
        if not (ordered or primary):
            raise InvalidArgumentError(
                "The dataset has no base paths to write to.",
                hint="Add base paths with add_bases(), or also write to the dataset's own folder.",
            )
        own = (WriteTarget(location.store),) if primary and ordered else ()
        return (*own, *(_place(location, base) for base in ordered))
    return tuple(
        WriteTarget(location.store)
        if _is_own(location, text)
        else _place(location, _named(bases, text))
        for text in wanted
    )


def _is_own(location: BranchLocation, text: str) -> bool:
    place = text.removeprefix("file://")
    if "://" in place:
        return place.rstrip("/") == location.uri
    return "://" not in location.uri and str(Path(place).absolute()) == location.uri


def _named(bases: Sequence[BasePath], text: str) -> BasePath:
    for base in bases:
        if text in (base.name, base.path):
            return base
    known = ", ".join(repr(base.name or base.path) for base in bases)
    raise InvalidArgumentError(
        f"Base path {shown(text)} was not found.",
        hint=f"The base paths are {known}."
        if known
        else "The dataset has no base paths: see add_bases().",
        base=text,
    )


def _place(location: BranchLocation, base: BasePath) -> WriteTarget:
    return WriteTarget(location.base(base.path), DATA if base.is_dataset_root else "", base.id)
