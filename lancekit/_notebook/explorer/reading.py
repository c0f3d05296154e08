"""What an explorer knows of a dataset: manifests, tags and names of branches; no rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

from lancekit._api.diff import SchemaChanges, schema_changes
from lancekit._api.history import Version
from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.names import MAIN
from lancekit._lazy import cached_property
from lancekit._notebook.cards.common import REFS_READ
from lancekit._notebook.explorer.state import ExplorerState, Place, Switch
from lancekit._operations.lineage.columns import fragments_apart

__all__ = ["Apart", "Reader", "Stop", "apart"]

#: handles that are kept: a stop, what it is compared with, and some around
_KEPT = 16


@dataclass(frozen=True)
class Stop:
    """A version as a handle holds it, and its tags; ``None`` if there are too many to read."""

    handle: LanceDataset
    tags: tuple[str, ...] | None

    @cached_property
    def version(self) -> Version:
        """What its manifest says of it."""
        return self.handle.get_version()

    @property
    def place(self) -> Place:
        """The branch and the version."""
        return self.handle.branch, self.handle.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """In what a version differs from an old one, as far as manifests tell: new minus old."""

    old: Stop
    rows: int
    bytes: int
    columns: int
    fragments_added: int
    fragments_removed: int
    fragments_changed: int
    schema: SchemaChanges


def apart(old: Stop, new: Stop) -> Apart:
    """Return in what two versions differ; no rows are read."""
    before, after = fragments_apart(old.handle._snapshot, new.handle._snapshot)
    mine = old.handle._snapshot.manifest.fragments.ids[before]
    theirs = new.handle._snapshot.manifest.fragments.ids[after]
    both = len({*mine.tolist()} & {*theirs.tolist()})
    return Apart(
        old=old,
        rows=new.version.num_rows - old.version.num_rows,
        bytes=new.version.total_bytes - old.version.total_bytes,
        columns=new.version.num_columns - old.version.num_columns,
        fragments_added=len(theirs) - both,
        fragments_removed=len(mine) - both,
        fragments_changed=both,
        schema=schema_changes(old.handle, new.handle),
    )


class Reader:
    """Reads versions of a dataset by branch and number; those of late are kept."""

    def __init__(self, ds: LanceDataset) -> None:
        self._base = copy(ds)
        self.home = ds.branch
        self._base._scan_defaults = {}  # of a part of the rows no number would be right
        self.forget()

    def forget(self) -> None:
        """Read anew from now on, what branches and tags there are as well."""
        self.handle = lru_cache(_KEPT)(self.fresh)
        self.branches = (MAIN, *self._base.branches.names())
        self.tags: Mapping[str, Place] | None = self._tags()

    def _tags(self) -> Mapping[str, Place] | None:
        _, pairs = self._base.tags._names_and_refs(REFS_READ)
        if pairs is None:
            return None
        return {name: (tag["branch"] or MAIN, tag["version"]) for name, tag in pairs}

    def fresh(self, place: Place) -> LanceDataset:
        """Return a handle that nobody else has, and that may move; `handle` gives one that is kept.

        Raises
        ------
        VersionNotFoundError, BranchNotFoundError
            It is gone.
        """
        return self._base.checkout_version(place)

    def stop(self, place: Place) -> Stop:
        """Return a version.

        Raises
        ------
        VersionNotFoundError, BranchNotFoundError
            It is gone.
        """
        tags = self.tags
        at = None if tags is None else tuple(sorted(n for n, to in tags.items() if to == place))
        return Stop(self.handle(place), at)

    def listed(self, branch: str, version: int | None = None) -> Switch:
        """Return the event that leads to a version of a branch, by default its newest."""
        return Switch(branch, self._versions(branch), version)

    def newest(self, branch: str) -> int:
        """Return the newest version of a branch, as it is now."""
        return self._base.checkout_version((branch, None)).version

    def _versions(self, branch: str) -> tuple[int, ...]:
        there = branch == self.home
        at = self._base if there else self._base.checkout_version((branch, None))
        return at.versions().numbers

    def start(self, page_rows: int) -> ExplorerState:
        """Return the state in which an explorer begins: where the handle is."""
        branch, versions = self.home, self._versions(self.home)
        there = bisect_right(versions, self._base.version)  # it may be cleaned up since
        return ExplorerState(
            branch=branch,
            versions=versions,
            version=versions[max(there - 1, 0)],
            home=branch,
            page_rows=page_rows,
        )
