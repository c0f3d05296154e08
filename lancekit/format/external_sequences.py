"""Row ids and row versions that lie in a file beside the manifest (docs/format/table.md, 2.5).

No release writes such; those of another writer are read, and kept as they are by a commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lancekit.errors import CorruptFileError
from lancekit.format.fragment import Fragment
from lancekit.format.pb import table_pb2 as pb
from lancekit.format.unknown_fields import parse

__all__ = ["SEQUENCES", "ExternalFile", "external_sequence", "without_external"]

#: the field of a fragment's message, by that of the dataclass
_FIELDS: Mapping[str, str] = {
    "row_ids": "external_row_ids",
    "created_at": "external_created_at_versions",
    "last_updated_at": "external_last_updated_at_versions",
}
SEQUENCES = tuple(_FIELDS)


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A part of a file; `path` is relative to the dataset's root."""

    path: str
    offset: int
    size: int


def external_sequence(fragment: Fragment, name: str) -> ExternalFile | None:
    """Return where a sequence of a fragment lies that is not in the manifest.

    Parameters
    ----------
    name
        ``"row_ids"``, ``"created_at"`` or ``"last_updated_at"``.

    Raises
    ------
    CorruptFileError
        The file is outside of the dataset.
    """
    if not fragment.unknown:
        return None
    message = parse(pb.DataFragment, fragment.unknown, f"fragment {fragment.id}")
    if not message.HasField(_FIELDS[name]):
        return None
    found = getattr(message, _FIELDS[name])
    parts = found.path.replace("\\", "/").split("/")
    if not all(parts) or {".", ".."} & set(parts) or ":" in found.path:
        raise CorruptFileError(
            f"Fragment {fragment.id} has its {name} in {found.path!r}, which is not a path below "
            "the dataset.",
            hint="The manifest is damaged or was made to read files elsewhere.",
            file=found.path,
        )
    return ExternalFile(found.path, found.offset, found.size)


def without_external(fragment: Fragment, name: str) -> Fragment:
    """Return a fragment that no longer names a file for a sequence, which gets a value."""
    if external_sequence(fragment, name) is None:
        return fragment
    message = parse(pb.DataFragment, fragment.unknown, f"fragment {fragment.id}")
    message.ClearField(_FIELDS[name])
    return replace(fragment, unknown=message.SerializeToString())
