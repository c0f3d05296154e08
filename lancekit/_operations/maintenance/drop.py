"""The removal of a dataset as a whole, and of nothing that is somebody else's.

A dataset may lie in a folder with other things: beside notebooks, in a home.  What Lance writes
is told by its name, and only that goes.
"""

from __future__ import annotations

import re

from lancekit._format import names
from lancekit._legible import warn
from lancekit._storage.base import TEMPORARY
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import dataset_exists
from lancekit._versions.references import parse_reference, resolve
from lancekit.errors import DatasetNotFoundError, FormatError, InvalidArgumentError

#: what no one but Lance calls a folder
_RESERVED = (
    names.TRANSACTIONS, names.DELETIONS, names.INDICES, names.BLOBS, "_refs", "_mem_wal",
    names.VERSIONS,
)  # fmt: skip
_OWN = re.compile(
    # of the dataset itself, or of a branch, whose name may have more parts than one
    r"(?:tree/(?:[^/]+/)+)?"
    rf"(?:(?:{'|'.join(_RESERVED)})/.+"
    rf"|{names.DATA_FILE}|data/(?:[^/]+/)?{TEMPORARY})"
    r"|_latest\.manifest",  # a copy of the newest, by early releases
    re.DOTALL,
)
#: manifests go last: a removal that is interrupted can be done again
_ORDER = (names.DATA, names.TREE, *_RESERVED)
#: so many names are told of what stays
_TOLD = 5


def drop_dataset(location: BranchLocation, *, ignore_not_found: bool) -> None:
    """Remove a dataset, and its folder if nothing else is in it; warns of what is left.

    Raises DatasetNotFoundError: there is nothing.
    Raises InvalidArgumentError: what is there is no dataset, or is a branch.
    """
    store = location.store
    if not dataset_exists(location) and not store.first_names("").names:
        if ignore_not_found:
            return
        raise DatasetNotFoundError(f"There is nothing at {location.uri} to drop.", uri=location.uri)
    try:
        found = resolve(location, parse_reference(None, location))
    except (DatasetNotFoundError, FormatError) as error:
        raise InvalidArgumentError(
            f"{location.uri} is not dropped: no version of a dataset can be read there.",
            hint="Pass the dataset's own folder; what else is there has to be removed by hand.",
            uri=location.uri,
        ) from error
    branch = found.location.branch
    if branch is not None:
        raise InvalidArgumentError(
            f"{location.uri} is not dropped: it is the branch {branch!r} of a dataset.",
            hint=f"Delete it from a handle on the dataset: ds.branches.delete({branch!r}).",
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
        "what is behind its links": links,
        "its files in base paths": bases,
        "what else is in its folder": strange,
    }.items():
        if places:
            more = f" and {len(places) - _TOLD:,} more" if len(places) > _TOLD else ""
            told = ", ".join(sorted(places)[:_TOLD])
            warn(f"{location.uri} is removed, but not {what}: {told}{more}.")
