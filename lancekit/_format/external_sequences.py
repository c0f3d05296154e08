"""Row ids and row versions that are stored outside of the manifest (docs/format/table.md, 2.5).

They are a column of one of the fragment's data files, as pylance 14 writes long ones, or a part of
a file, which no release writes.  Commits keep both unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lancekit._format.fragment import LINEAGE_FIELDS, MARKS, Fragment, marked
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit.errors import CorruptFileError

#: the field in a fragment's message for each field of `Fragment`
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
    """Return the part of a file that holds a sequence of a fragment, if it is in such a part.

    name: ``"row_ids"``, ``"created_at"`` or ``"last_updated_at"``.

    Raises CorruptFileError: the file is outside of the dataset.
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
            hint="The manifest is damaged, or was crafted to read other files.",
            file=found.path,
        )
    return ExternalFile(found.path, found.offset, found.size)


def column_sequences(fragment: Fragment) -> list[str]:
    """Return the sequences of a fragment that are columns of its data files."""
    return marked(fragment.unknown)


def is_external(fragment: Fragment) -> bool:
    """Return True if a sequence of a fragment is stored outside of the manifest."""
    return bool(column_sequences(fragment)) or any(
        external_sequence(fragment, name) for name in SEQUENCES
    )


def lineage_column(fragment: Fragment, name: str) -> tuple[int, int]:
    """Return the position of the data file with a sequence, and the sequence's column in it.

    Raises CorruptFileError: no file of the fragment, or more than one, has the column.
    """
    field_id = LINEAGE_FIELDS[name]
    columns = [file.columns.get(field_id) for file in fragment.files]
    found = [(place, column) for place, column in enumerate(columns) if column is not None]
    if len(found) != 1:
        raise CorruptFileError(
            f"The {name} of fragment {fragment.id} must be in one data file, but {len(found)} of "
            f"its {len(columns)} files list field {field_id}.",
            hint="The manifest is damaged: open an earlier version.",
            fragment=fragment.id,
        )
    return found[0]


def without_external(fragment: Fragment, name: str) -> Fragment:
    """Return a fragment that no longer stores a sequence outside of the manifest."""
    if not fragment.unknown:
        return fragment
    message = parse(pb.DataFragment, fragment.unknown, f"fragment {fragment.id}")
    message.ClearField(_FIELDS[name])
    message.ClearField(MARKS[name])
    return replace(fragment, unknown=message.SerializeToString())
