"""The files of tags and branches, even damaged ones, and the versions that read a branch's files.

A damaged file is an error if its reference is requested, and for operations that must know all
references, because they remove versions.  Lists return the other references, with a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from lancekit._format import names
from lancekit._format.names import MAIN
from lancekit._format.refs import (
    REFERENCE_BYTES,
    Branch,
    Tag,
    branch_file,
    check_tag_name,
    tag_file,
)
from lancekit._legible import warn
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import at_once, list_versions, timed
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    BranchNotFoundError,
    CorruptFileError,
    DatasetNotFoundError,
    FormatError,
    InvalidArgumentError,
    TagNotFoundError,
    UntrustedBaseError,
    VersionNotFoundError,
)

R = TypeVar("R", Tag, Branch)
#: the file of each reference by name, in order
Files: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class References(Generic[R]):
    """The tags or branches by name: the readable ones, and the errors of damaged ones."""

    sound: dict[str, R]
    damaged: dict[str, CorruptFileError]


def tag_files(root: Store) -> Files:
    """Return the file of each tag by name; none is read."""
    return _files(root, names.TAGS)


def branch_files(root: Store) -> Files:
    """Return the file of each branch but main by name; none is read."""
    return _files(root, names.BRANCHES)


def read_tags(root: Store, files: Files | None = None) -> References[Tag]:
    """Read every tag, from listed files; list them if they are not given."""
    return _read(root, tag_files(root) if files is None else files, Tag)


def read_branches(root: Store, files: Files | None = None) -> References[Branch]:
    """Read every branch but main, from listed files; list them if they are not given."""
    return _read(root, branch_files(root) if files is None else files, Branch)


def list_tags(root: Store, files: Files | None = None) -> dict[str, Tag]:
    """Return the tags by name, with a warning for each that cannot be read."""
    return _with_warnings(read_tags(root, files))


def list_branches(root: Store, files: Files | None = None) -> dict[str, Branch]:
    """Return the branches by name, without main, with a warning for each that cannot be read."""
    return _with_warnings(read_branches(root, files))


def all_tags(root: Store) -> dict[str, Tag]:
    """Return every tag by name; ``CorruptFileError`` if one cannot be read."""
    return _complete(read_tags(root))


def all_branches(root: Store) -> dict[str, Branch]:
    """Return every branch by name, without main; ``CorruptFileError`` if one cannot be read."""
    return _complete(read_branches(root))


#: other references that users write as text, and hints
_NO_TAGS = {
    r"(\d+)": "For a version, pass a number: version={0}.",
    r"(.+):(\d+)": "For a version of a branch, pass ({0!r}, {1}).",
    "(?:head|latest|newest|current).*": "The newest version is ds.latest() or lk.dataset(uri), and "
    "the one before ds.checkout_version(ds.version - 1).",
}


def get_tag(root: Store, name: str) -> Tag:
    """Return a tag; ``TagNotFoundError`` if it does not exist."""
    path = tag_file(name)
    try:
        check_tag_name(name)
        return Tag.from_json(_bytes(root, path), path)
    except InvalidArgumentError:
        if root.exists(path):
            raise
    except FileNotFoundError:
        pass
    hint = _known(tag_files(root), "tags")
    for form, other in _NO_TAGS.items():
        if found := re.fullmatch(form, name, re.IGNORECASE):
            hint = other.format(*found.groups())
    with suppress(ValueError):
        datetime.fromisoformat(name)
        hint = f"For a time, use lk.dataset(uri, asof={name!r}) or ds.at(asof={name!r})."
    if name == MAIN or name in branch_files(root):
        hint = f"It is a branch. Use ds.branches[{name!r}], or pass ({name!r}, None)."
    raise TagNotFoundError(f"Tag {name!r} does not exist.", hint=hint, tag=name)


def get_branch(root: Store, name: str) -> Branch:
    """Return a branch; ``BranchNotFoundError`` if it does not exist."""
    try:
        return Branch.from_json(_bytes(root, branch_file(name)), branch_file(name))
    except FileNotFoundError:
        raise no_branch(root, name) from None


def no_branch(root: Store, name: str) -> BranchNotFoundError:
    """Return the error for a branch that does not exist."""
    return BranchNotFoundError(
        f"Branch {name!r} does not exist.", hint=_known(branch_files(root), "branches"), branch=name
    )


def unknown_needs(name: str, damage: CorruptFileError) -> CorruptFileError:
    """Return the error for a reference that cannot be read, in operations that remove versions."""
    place = "tags" if damage.context["file"].startswith(names.TAGS) else "branches"
    return CorruptFileError(
        f"{damage.message} The files that it needs are unknown, so nothing is removed.",
        hint=f"Restore the file from a copy, or delete the reference: ds.{place}.delete({name!r}).",
        **damage.context,
    )


def _files(root: Store, folder: str) -> Files:
    files = sorted(file for file in root.list_names(folder) if file.endswith(".json"))
    return {unquote(file.removesuffix(".json")): f"{folder}/{file}" for file in files}


def _bytes(root: Store, path: str) -> pa.Buffer:
    folder, _, file = path.rpartition("/")
    with suppress(FileNotFoundError):
        return root.read(path, REFERENCE_BYTES)
    if file not in root.list_names(folder):
        raise FileNotFoundError(path)
    try:  # it may have been created since
        return root.read(path, REFERENCE_BYTES)
    except FileNotFoundError:
        raise CorruptFileError(f"{path} is a broken link.", path=path) from None


def _read(root: Store, files: Files, kind: type[R]) -> References[R]:
    def read(path: str) -> R | CorruptFileError | None:
        try:
            return kind.from_json(_bytes(root, path), path)
        except FileNotFoundError:  # deleted between listing and reading
            return None
        except CorruptFileError as error:
            error.context["file"] = path
            return error

    found: list[R | CorruptFileError | None] = []
    if files:
        first, *others = files.values()
        slow: bool
        came, slow = timed(read, first)
        found = [came, *(at_once(read, others) if slow else map(read, others))]
    named = [(name, one) for name, one in zip(files, found, strict=True) if one is not None]
    return References(
        sound={name: one for name, one in named if not isinstance(one, CorruptFileError)},
        damaged={name: one for name, one in named if isinstance(one, CorruptFileError)},
    )


def _with_warnings(found: References[R]) -> dict[str, R]:
    for name, damage in found.damaged.items():
        warn(f"{name!r} is skipped. {damage}")
    return found.sound


def _complete(found: References[R]) -> dict[str, R]:
    for name, damage in found.damaged.items():
        raise unknown_needs(name, damage)
    return found.sound


def _known(files: Files, what: str) -> str:
    if not files:
        return f"The dataset has no {what}."
    listed = ", ".join(list(files)[:10]) + (", ..." if len(files) > 10 else "")
    return f"The dataset's {what}: {listed}."


# ---- the versions of other branches that read files in a branch's folder


def borrowers(location: BranchLocation) -> dict[str, list[Snapshot]]:
    """Return the versions that read files of a branch, by the name of their branch, oldest first.

    They are on branches that were forked from it, and on branches into which it was merged without
    copies.  A version that cannot be read is ignored, because it loses nothing.
    """
    own = _place(location.uri)

    @cache
    def is_own(path: str) -> bool:
        try:
            return _place(location.base(path).uri) == own
        except (UntrustedBaseError, InvalidArgumentError):
            return False

    def load(at: tuple[BranchLocation, int]) -> Snapshot | None:
        try:
            found = load_snapshot(*at)
            bases = {base.id for base in found.manifest.base_paths if is_own(base.path)}
            return found if bases and _reads(found, bases) else None
        except (VersionNotFoundError, FormatError):
            return None

    found: dict[str, list[Snapshot]] = {}
    for name in (MAIN, *branch_files(location.root)):
        if name != location.name:
            other = location.on(name)
            loaded = at_once(load, [(other, version) for version in _versions(other)])
            if reading := [snapshot for snapshot in loaded if snapshot is not None]:
                found[name] = reading
    return found


def _versions(location: BranchLocation) -> tuple[int, ...]:
    try:
        return list_versions(location).versions
    except (DatasetNotFoundError, FormatError):
        return ()


def _reads(snapshot: Snapshot, bases: set[int]) -> bool:
    """Return True if a version has files in one of some bases, or may have blobs there."""
    if snapshot.manifest.has_managed_blobs:  # data files name such blobs; the manifest does not
        return True
    if any(index.base_id in bases for index in snapshot.indices):
        return True
    for fragment in snapshot.manifest.fragments:
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id in bases:
            return True
        if any(file.base_id in bases for file in fragment.files):
            return True
    return False


def _place(uri: str) -> str:
    return uri if "://" in uri else os.path.realpath(uri)
