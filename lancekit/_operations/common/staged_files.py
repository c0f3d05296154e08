"""How new files are written for a version, and what becomes of them if it does not land."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lancekit._commit.manifest.draft import check_format
from lancekit._defaults import MAX_BYTES_PER_FILE
from lancekit._format.fragment import Fragment
from lancekit._pipeline.rows.write import WriteTarget, WriteTask, delete_fragments
from lancekit._storage.base import Store
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitUnknownError, LancekitError
from lancekit.options import options

__all__ = ["removed_unless_landed", "write_task"]


def write_task(
    snapshot: Snapshot,
    storage_version: str | None = None,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
) -> WriteTask:
    """Return how to write rows that are to be added to a version.

    Raises
    ------
    InvalidArgumentError
        Its files are of another format than the one that was asked for.
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
def removed_unless_landed(
    store: Store, fragments: Iterable[Fragment], places: Iterable[WriteTarget] = ()
) -> Iterator[None]:
    """Remove the files of new fragments if the commit in the block is known not to have landed.

    Only an error of lancekit says so.  After an interrupt, as after a `CommitUnknownError`, the
    version may be there: its files stay, and cleanup removes them if nothing refers to them.
    """
    try:
        yield
    except CommitUnknownError:
        raise
    except LancekitError:
        delete_fragments(store, fragments, places)
        raise
