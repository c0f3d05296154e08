"""Removal of a whole dataset; other files in its folder, such as notebooks, stay.

Files of Lance are recognized by their names, and only these are removed.
"""

from __future__ import annotations

import re

from lancekit._format import names
from lancekit._legible import warn
from lancekit._storage.base import TEMPORARY
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import dataset_exists
from lancekit._versions.references import parse_reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import DatasetNotFoundError, FormatError, InvalidArgumentError

#: folder names that only Lance uses
_RESERVED = (
    names.TRANSACTIONS, names.DELETIONS, names.INDICES, names.BLOBS, "_refs", "_mem_wal",
    names.VERSIONS,
)  # fmt: skip
_OWN = re.compile(
    # files of the dataset, or of a branch, whose name may have several parts
    r"(?:tree/(?:[^/]+/)+)?"
    rf"(?:(?:{'|'.join(_RESERVED)})/.+"
    rf"|{names.DATA_FILE}|data/(?:[^/]+/)?{TEMPORARY})"
    r"|_latest\.manifest",  # a copy of the newest manifest, written by early releases
    re.DOTALL,
)
#: manifests go last, so that an interrupted removal can be repeated
_ORDER = (names.DATA, names.TREE, *_RESERVED)
#: the maximal number of names in a warning
_MAX_NAMED = 5


def drop_dataset(location: BranchLocation, *, ignore_not_found: bool) -> Snapshot | None:
    """Remove a dataset, and its folder if it is then empty; warn of files that stay.

    Return its newest version, or ``None`` if there was no dataset.

    Raises DatasetNotFoundError: the folder is empty or does not exist.
    Raises InvalidArgumentError: the folder has no dataset, or is a branch.
    """
    store = location.store
    if not dataset_exists(location) and not store.first_names("").names:
        if ignore_not_found:
            return None
        raise DatasetNotFoundError(
            f"There is no dataset at {location.uri} to drop.", uri=location.uri
        )
    try:
        found = resolve(location, parse_reference(None, location))
    except (DatasetNotFoundError, FormatError) as error:
        raise InvalidArgumentError(
            f"{location.uri} was not dropped, because it has no readable version of a dataset.",
            hint="Pass the dataset's own folder. Remove other files by hand.",
            uri=location.uri,
        ) from error
    branch = found.location.branch
    if branch is not None:
        raise InvalidArgumentError(
            f"{location.uri} was not dropped, because it is branch {branch!r} of a dataset.",
            hint=f"Delete the branch through the dataset: ds.branches.delete({branch!r}).",
            uri=location.uri,
        )
    listed = store.list_tree()
    strange = [f.name for f in listed if not (f.name in _ORDER or _OWN.fullmatch(f.name))]
    links = [f.name for f in listed if not f.regular and f.name not in strange]
    for folder in _ORDER:
        if any(name.startswith(f"{folder}/") for name in strange):
            for file in listed:
                if file.name.startswith(f"{folder}/") and file.name not in strange:
                    store.delete(file.name)
        else:
            store.delete_tree(folder)
    store.delete("_latest.manifest")
    store.prune()
    bases = [base.path for base in found.manifest.base_paths if not base.is_dataset_root]
    for what, places in {
        "the targets of its links": links,
        "its files in base paths": bases,
        "other files in its folder": strange,
    }.items():
        if places:
            more = f" and {len(places) - _MAX_NAMED:,} more" if len(places) > _MAX_NAMED else ""
            named = ", ".join(sorted(places)[:_MAX_NAMED])
            warn(f"{location.uri} was removed, except {what}: {named}{more}.")
    return found
