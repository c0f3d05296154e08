"""Giving the manifests of a folder the newer names (docs/format/table.md, 1)."""

from __future__ import annotations

from lancekit._format import names
from lancekit._format.names import ManifestNaming
from lancekit._storage.base import Store
from lancekit._versions.line import Line
from lancekit.errors import CorruptFileError

__all__ = ["migrate_names"]


def migrate_names(line: Line) -> int:
    """Give every manifest its newer name; return how many had the older one.

    A manifest is copied before it goes, so that each version is there at every moment, at times
    under both names; a run that was interrupted is finished by the next.  The newest version comes
    first: whoever lists in order meets it first from then on.

    Raises
    ------
    CorruptFileError
        A version is there twice with different content: somebody committed under the older name
        while the folder was migrated.
    """
    store, moved = line.store, 0
    # writers that know only the older names may add one meanwhile
    while older := _older(store):
        for version in older:
            _move(store, version)
        moved += len(older)
    return moved


def _older(store: Store) -> list[int]:
    parsed = filter(None, map(names.parse_manifest_name, store.list_names(names.VERSIONS)))
    return sorted((v for v, naming in parsed if naming is ManifestNaming.V1), reverse=True)


def _move(store: Store, version: int) -> None:
    old, new = (
        f"{names.VERSIONS}/{names.manifest_name(version, naming)}" for naming in ManifestNaming
    )
    try:
        data = store.read(old)
    except FileNotFoundError:  # somebody else has moved it, or cleaned it up
        return
    if not store.put_if_absent(new, data) and store.read(new) != data:
        raise CorruptFileError(
            f"{store.uri} has two versions {version}: {old} and {new} differ.",
            hint="Look at both, and move the one that is to go elsewhere.",
            version=version,
            file=new,
        )
    store.delete(old)
