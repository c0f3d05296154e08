"""Row counts that manifests of the first releases lack, and that are read from the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lancekit._format.fragment import Fragment
from lancekit._format.manifest import Manifest
from lancekit._format.names import DATA
from lancekit._storage.base import METADATA_BYTES, Store
from lancekit.errors import CorruptFileError


def counted(store: Store, manifest: Manifest) -> Manifest:
    """Return a manifest with the numbers of rows and of deleted rows of all fragments.

    Only tables of format 0.1 may lack them.  Any later commit records them.

    Raises CorruptFileError: a file that must be read is damaged or missing.
    """
    if manifest.storage_version != "0.1":
        return manifest
    updated = {fragment.id: fragment for fragment in _counted(store, manifest)}
    if not updated:
        return manifest
    return replace(manifest, fragments=manifest.fragments.edit(updated=updated))


def _counted(store: Store, manifest: Manifest) -> Iterator[Fragment]:
    from lancekit._file.reader import FileReader
    from lancekit._format.deletions import decode_deletions

    for fragment in manifest.fragments:
        rows, deletion = fragment.physical_rows, fragment.deletion_file
        if rows and (deletion is None or deletion.num_deleted_rows):
            continue
        try:
            if not rows and fragment.files:
                rows = FileReader.open(store.open(f"{DATA}/{fragment.files[0].path}")).num_rows
            if deletion is not None and not deletion.num_deleted_rows:
                name = deletion.name(fragment.id)
                data = store.read(name, METADATA_BYTES)
                gone = decode_deletions(data, deletion.file_type, f"{store.uri}/{name}", rows)
                deletion = replace(deletion, num_deleted_rows=len(gone))
        except FileNotFoundError as error:
            raise CorruptFileError(
                f"Fragment {fragment.id} of version {manifest.version} of {store.uri} lists a "
                "file that does not exist.",
                fragment=fragment.id,
            ) from error
        yield replace(fragment, physical_rows=rows, deletion_file=deletion)
