"""Creation and deletion of tags, branches and clones."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from lancekit._commit.clock import Clock
from lancekit._format import names
from lancekit._format import operations as ops
from lancekit._format.mem_wal.names import LOGS
from lancekit._format.names import MAIN
from lancekit._format.refs import (
    Branch,
    Tag,
    branch_file,
    check_branch_name,
    check_tag_name,
    tag_file,
)
from lancekit._format.transaction import Transaction
from lancekit._interrupts import attempting, outcome
from lancekit._legible import clean, warn
from lancekit._storage.base import Store
from lancekit._storage.folders import leads_away
from lancekit._versions.branch_location import BranchLocation, check_new_place, open_location
from lancekit._versions.listing import dataset_exists, latest_snapshot
from lancekit._versions.reference_files import (
    borrowers,
    branch_files,
    get_branch,
    get_tag,
    no_branch,
    read_branches,
    read_tags,
    unknown_needs,
)
from lancekit._versions.references import parse_reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    BranchNotFoundError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    FormatError,
    RefConflictError,
    StorageError,
    VersionNotFoundError,
)

# ---- tags


def _tag_of(location: BranchLocation, value: object) -> Tag:
    snapshot = resolve(location, parse_reference(value, location))
    return Tag(
        version=snapshot.version,
        branch=snapshot.location.branch,
        manifest_size=snapshot.manifest_size,
    )


def create_tag(location: BranchLocation, name: str, reference: object) -> Tag:
    """Create a tag, and return it; never replace an existing one.

    Raises InvalidArgumentError: the name cannot be used.
    Raises RefConflictError: the tag exists.
    Raises TagNotFoundError, BranchNotFoundError, VersionNotFoundError: the source is missing.
    """
    check_tag_name(name)
    now = datetime.now(UTC)
    tag = replace(_tag_of(location, reference), created_at=now, updated_at=now)
    with _attempting("tag", name, "created", lambda: _has_tag(location.root, name, tag)):
        if not location.root.put_if_absent(tag_file(name), tag.to_json()):
            raise RefConflictError(
                f"Tag {name!r} already exists.",
                hint="Move it with tags.update(), or delete it first.",
                tag=name,
            )
    return tag


def update_tag(location: BranchLocation, name: str, reference: object) -> tuple[Tag, Tag]:
    """Point an existing tag to another version; return the tag before and after."""
    old = get_tag(location.root, name)
    tag = replace(
        _tag_of(location, reference),
        created_at=old.created_at,
        updated_at=datetime.now(UTC),
        metadata=old.metadata,
    )
    with _attempting("tag", name, "moved", lambda: _has_tag(location.root, name, tag)):
        location.root.put(tag_file(name), tag.to_json())
    return old, tag


def _has_tag(root: Store, name: str, tag: Tag) -> bool:
    return root.exists(tag_file(name)) and get_tag(root, name) == tag


def _attempting(
    kind: str, name: str, done: str, check: Callable[[], bool], key: str | None = None
) -> AbstractContextManager[None]:
    return attempting(outcome(f"{kind} {clean(name)!r}", done), check, key)


def replace_tag_metadata(root: Store, name: str, metadata: Mapping[str, str]) -> None:
    """Replace a tag's own metadata."""
    tag = replace(get_tag(root, name), metadata=dict(metadata))
    root.put(tag_file(name), tag.to_json())


def delete_tag(root: Store, name: str) -> Tag | None:
    """Delete a tag, even a damaged one, and return it; the version stays."""
    tag = None
    with suppress(CorruptFileError):
        tag = get_tag(root, name)
    with _attempting("tag", name, "deleted", lambda: not root.exists(tag_file(name))):
        root.delete(tag_file(name))
    return tag


# ---- branches and clones


def create_branch(location: BranchLocation, name: str, reference: object, clock: Clock) -> Snapshot:
    """Fork a branch from a version: a shallow clone below `tree/`, then the branch's file.

    Raises InvalidArgumentError: the name cannot be used.
    Raises RefConflictError: the branch exists.
    """
    check_branch_name(name)
    source = resolve(location, parse_reference(reference, location))
    target = location.on(name)
    if location.root.exists(branch_file(name)):
        raise RefConflictError(
            f"Branch {name!r} already exists.",
            hint=f'Open it with checkout_version(("{name}", None)), or delete it first.',
            branch=name,
        )
    # a branch exists once it has its file: until then, another call can finish its creation
    is_listed = partial(location.root.exists, branch_file(name))
    with _attempting("branch", name, "created", is_listed, key=target.uri):
        created = _unlisted(source, target, name)
        if created is None:
            created = _put_clone(source, target, name, clock)
        parent = source.location.branch
        steps = () if parent is None else get_branch(location.root, parent).identifier
        record = Branch(
            parent_branch=parent,
            identifier=(*steps, (source.version, uuid.uuid4().hex)),
            parent_version=source.version,
            create_at=clock.now_ns() // 10**9,
            manifest_size=source.manifest_size,
        )
        if not location.root.put_if_absent(branch_file(name), record.to_json()):
            raise RefConflictError(f"Branch {name!r} was created at the same time.", branch=name)
    return created


def _unlisted(source: Snapshot, target: BranchLocation, name: str) -> Snapshot | None:
    """Return the branch of a writer that died before it put the branch's file, if there is one.

    The caller lists it instead of removing it, because that writer may still be working.

    Raises RefConflictError: the folder has versions of something else.
    """
    if not dataset_exists(target):
        return None
    found = latest_snapshot(target)
    made_by = found.transaction.operation if found.transaction else None
    origin = (source.store.uri, source.version)
    if (
        isinstance(made_by, ops.Clone)
        and found.version == source.version
        and (made_by.ref_path, made_by.ref_version) == origin
    ):
        return found
    raise RefConflictError(
        f"Files of an unfinished branch {name!r} exist: creating or deleting it was interrupted.",
        hint=f'Remove it with branches.delete("{name}"), then create the branch again.',
        branch=name,
    )


def replace_branch_metadata(root: Store, name: str, metadata: Mapping[str, str]) -> None:
    """Replace a branch's own metadata."""
    record = replace(get_branch(root, name), metadata=dict(metadata))
    root.put(branch_file(name), record.to_json())


def delete_branch(location: BranchLocation, name: str) -> None:
    """Delete a branch and its own files, even an unfinished branch of a writer that died.

    A folder in the branch's place with other content, or behind a link, is kept.  Then only the
    reference is removed, with a warning.

    Raises BranchNotFoundError: the branch does not exist, or is main.
    Raises RefConflictError: another branch descends from it, a tag points to it, or other branches
        read its files.
    Raises CorruptFileError: neither the file nor the versions of another branch can be read, so
        that it may descend from this branch.
    """
    if name == MAIN:
        raise BranchNotFoundError(
            "The main branch cannot be deleted: its folder is the whole dataset.",
            hint="LanceDataset.drop() removes a dataset.",
            branch=name,
        )
    target = location.on(name)
    is_listed = name in branch_files(location.root)  # also a damaged file that is no regular one
    has_folder = holds_branch(target, or_damaged=is_listed)
    if not name or not (is_listed or has_folder):
        raise no_branch(location.root, name)
    children = _children(location, name)
    # a damaged tag points to nothing, so it protects nothing
    tags = [tag for tag, t in read_tags(location.root).sound.items() if t.branch == name]
    for what, users in (("branches", children), ("tags", tags)):
        if users:
            raise RefConflictError(
                f"Branch {name!r} is still used by the {what} {', '.join(users)}.",
                hint=f"Delete these {what} first.",
                branch=name,
                users=users,
            )
    if has_folder:
        _check_not_borrowed(target)
    file = branch_file(name)
    with _attempting("branch", name, "deleted", lambda: not location.root.exists(file)):
        location.root.delete(file)
    why = ""
    if has_folder:
        try:
            _remove_folder(location.root, name)
        except StorageError as error:
            if not leads_away(error):
                raise
            why = error.message
    elif _holds_more(location.root, name):
        why = f"{target.uri} is kept, because it has no versions of that branch."
    if why:
        warn(f"Branch {name!r} is no longer listed. {why}")


def _check_not_borrowed(location: BranchLocation) -> None:
    users = {name: [s.version for s in found] for name, found in borrowers(location).items()}
    if users:
        listed = (f"{name} ({_listed(versions)})" for name, versions in users.items())
        raise RefConflictError(
            f"Branch {location.name!r} has files that others read: {', '.join(listed)}.",
            hint="deepen() on each of them copies the files that its newest version needs. Older "
            "versions need them until cleanup_old_versions() removes these versions.",
            branch=location.name,
            users=users,
        )


def _listed(versions: Sequence[int]) -> str:
    shown = ", ".join(map(str, versions[-3:]))
    more = f" and {len(versions) - 3} more" if len(versions) > 3 else ""
    return f"version{'s' if len(versions) > 1 else ''} {shown}{more}"


def _holds_more(root: Store, name: str) -> bool:
    """Return True if a branch's folder has other files than nested branches, such as ``a/b``."""
    folder = names.branch_folder(name)
    within = tuple(
        f"{names.branch_folder(other)}/"
        for other in branch_files(root)
        if other.startswith(f"{name}/")
    )
    return any(not file.name.startswith(within) for file in root.list_tree(folder))


def _children(location: BranchLocation, name: str) -> list[str]:
    """Return the branches that were forked from a branch, even those with damaged references."""
    listed = read_branches(location.root)
    found = [other for other, branch in listed.sound.items() if branch.parent_branch == name]
    for other, damage in listed.damaged.items():
        try:
            bases = latest_snapshot(location.on(other)).manifest.base_paths if other != name else ()
        except (DatasetNotFoundError, VersionNotFoundError):  # no versions that need the branch
            continue
        except FormatError:
            if name in listed.damaged:  # otherwise two damaged branches could never be deleted
                continue
            raise unknown_needs(other, damage) from None
        folder = f"/{names.branch_folder(name)}"
        if any(base.path.rstrip("/").endswith(folder) for base in bases):
            found.append(other)
    return sorted(found)


def holds_branch(location: BranchLocation, *, or_damaged: bool = False) -> bool:
    """Return True if the newest manifest in a branch's folder names this branch.

    Other data can be below `tree/`.  ``or_damaged`` is the result if the manifest cannot be read.
    """
    try:
        return latest_snapshot(location).branch == location.branch
    except (DatasetNotFoundError, VersionNotFoundError):
        return False
    except FormatError:
        return or_damaged


#: the folders of a branch besides its versions
_PARTS = (names.TRANSACTIONS, names.DATA, names.BLOBS, names.DELETIONS, names.INDICES, LOGS)


def _remove_folder(root: Store, name: str) -> None:
    """Remove a branch's folder; the manifests, which identify it as one, are removed last."""
    folder = names.branch_folder(name)
    # another branch may be in a sub-folder, so that only this branch's own folders are removed
    found = (file.name.removeprefix(f"{folder}/") for file in root.list_tree(folder))
    nested = any(f"/{names.VERSIONS}/" in file for file in found if not file.startswith(f"{LOGS}/"))
    root.delete(f"{folder}/{names.VERSIONS}/{names.HINT}")
    for part in _PARTS:
        root.delete_tree(f"{folder}/{part}")
    root.delete_tree(f"{folder}/{names.VERSIONS}" if nested else folder)


def clone_version(
    source: Snapshot,
    target: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    clock: Clock,
) -> Snapshot:
    """Create a dataset that shares the files of one version.

    Raises DatasetExistsError: there is a dataset at ``target``.
    """
    location = new_clone_location(source, target, storage_options)
    return _put_clone(source, location, None, clock)


def new_clone_location(
    source: Snapshot, target: str | os.PathLike[str], storage_options: Mapping[str, str] | None
) -> BranchLocation:
    """Return the location of a new clone of a version.

    Raises DatasetExistsError: there is a dataset already.
    """
    location = open_location(target, storage_options or source.location.storage_options)
    check_new_place(location)
    if dataset_exists(location):
        raise DatasetExistsError(
            f"A dataset already exists at {location.uri}.",
            hint="Clone to another place, or remove it first.",
            uri=location.uri,
        )
    return location


def _put_clone(
    source: Snapshot, target: BranchLocation, branch: str | None, clock: Clock
) -> Snapshot:
    from lancekit._commit.manifest.build import build_manifest
    from lancekit._commit.put_version import put_first_manifest

    operation = ops.Clone(
        is_shallow=True,
        ref_name=source.location.branch,
        ref_version=source.version,
        ref_path=source.store.uri,
        branch_name=branch,
    )
    built = build_manifest(
        source.manifest, operation, timestamp_ns=clock.now_ns(), indices=source.indices
    )
    return put_first_manifest(target, built, Transaction(source.version, operation))
