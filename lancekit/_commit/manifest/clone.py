"""The first version of a clone or a branch, made from its source version.

See docs/format/table.md, 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lancekit._commit.manifest.draft import Built
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.fragment import Fragment, FragmentList
from lancekit._format.manifest import BasePath
from lancekit._format.operations import Clone


def shallow_clone(source: Built, operation: Clone) -> Built:
    """Return the source version with a base path for the files in the source's own folder."""
    manifest, indices = source
    taken = {base.id for base in manifest.base_paths}
    base_id = next(id_ for id_ in range(len(taken) + 1) if id_ not in taken)
    base = BasePath(
        id=base_id, path=operation.ref_path, is_dataset_root=True, name=operation.ref_name
    )
    return Built(
        replace(
            manifest,
            fragments=_with_bases(manifest.fragments, lambda old: base_id if old is None else old),
            base_paths=(*manifest.base_paths, base),
            branch=operation.branch_name,
        ),
        tuple(
            replace(index, base_id=base_id if index.base_id is None else index.base_id)
            for index in indices
        ),
    )


def deep_clone(source: Built) -> Built:
    """Return the source version without base paths: all files were copied to the clone."""
    manifest, indices = source
    blobs = any(is_blob_v2(field.metadata) for field in manifest.schema.walk())
    return Built(
        replace(
            manifest,
            fragments=_with_bases(manifest.fragments, lambda _: None),
            # an external blob in a data file refers to its base by number
            base_paths=manifest.base_paths if blobs else (),
            branch=None,
        ),
        tuple(replace(index, base_id=None) for index in indices),
    )


def _with_bases(fragments: FragmentList, base: Callable[[int | None], int | None]) -> FragmentList:
    return FragmentList.of(with_bases(fragment, base) for fragment in fragments)


def with_bases(fragment: Fragment, base: Callable[[int | None], int | None]) -> Fragment:
    """Return a fragment whose files have other base paths."""
    deletion = fragment.deletion_file
    if deletion is not None:
        deletion = replace(deletion, base_id=base(deletion.base_id))
    files = tuple(replace(file, base_id=base(file.base_id)) for file in fragment.files)
    return replace(fragment, files=files, deletion_file=deletion)
