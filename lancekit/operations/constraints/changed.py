"""Which rows a commit adds or changes, as far as the columns of a condition go."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lancekit import arrow_kernels as ak
from lancekit.format.fragment import Fragment, columns_of_files
from lancekit.format.operations import Operation, Overwrite
from lancekit.format.paths import find_field
from lancekit.format.schema import LanceSchema
from lancekit.pipeline.diff.values import differing
from lancekit.scan.expressions.condition import Condition
from lancekit.scan.fragment_rows import selected_rows
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.reader import FragmentReader, Offsets
from lancekit.scan.fragments.source import FragmentSource, fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["Changed", "Patched", "changed_fragments", "field_ids", "only_moved"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Patched:
    """A fragment whose rows stand where they stood, with columns that were written anew."""

    old: FragmentSource
    new: FragmentSource

    def broken(self, condition: Condition) -> Offsets:
        """Return the rows that break a condition, and did not have these values before."""
        reader = FragmentReader(self.new)
        rows = selected_rows(reader, condition.broken)
        return rows[self._differ(reader, condition, rows)] if len(rows) else rows

    def _differ(self, reader: FragmentReader, condition: Condition, rows: Offsets) -> Mask:
        names = sorted(condition.columns)
        new, old = reader.read(names, rows), FragmentReader(self.old).read(names, rows)
        out = np.zeros(len(rows), np.bool_)
        for ours, theirs in zip(new.columns, old.columns, strict=True):
            if ours.type != theirs.type:  # the column was cast
                return np.ones(len(rows), np.bool_)
            out |= differing(ak.combine_chunks(theirs), ak.combine_chunks(ours))
        return out


@dataclass(frozen=True, slots=True)
class Changed:
    """What a commit brings: fragments with nothing but new rows, and patched ones."""

    new: tuple[FragmentSource, ...]
    patched: tuple[Patched, ...]

    @property
    def files(self) -> Hashable:
        """What tells it from others, whatever ids its fragments were given."""
        return (
            frozenset(map(_files, self.new)),
            frozenset((_files(pair.old), _files(pair.new)) for pair in self.patched),
        )


def _files(source: FragmentSource) -> Hashable:
    return tuple(map(str, source.files))


def changed_fragments(
    latest: Snapshot | None, candidate: Snapshot, operation: Operation, condition: Condition
) -> Changed:
    """Return which fragments of a version have rows that the one before had not.

    Parameters
    ----------
    latest
        The version before; ``None`` to look at all rows.
    """
    sources = fragment_sources(candidate, blob_view(candidate.manifest.schema))
    if latest is None or isinstance(operation, Overwrite):
        return Changed(tuple(sources), ())
    known = set(latest.manifest.fragments.encoded)
    places = [
        place
        for place, encoded in enumerate(candidate.manifest.fragments.encoded)
        if encoded not in known
    ]
    before = fragment_sources(latest, blob_view(latest.manifest.schema))
    by_id = {id_: place for place, id_ in enumerate(latest.manifest.fragments.ids.tolist())}
    ids = field_ids(candidate.manifest.schema, condition.columns)
    new, patched = [], []
    for place in places:
        source = sources[place]
        old = before[by_id[source.fragment.id]] if source.fragment.id in by_id else None
        if old is None or old.fragment.physical_rows != source.fragment.physical_rows:
            new.append(source)
        elif _stored(old.fragment, ids) != _stored(source.fragment, ids):
            patched.append(Patched(old, source))
    return Changed(tuple(new), tuple(patched))


def only_moved(latest: Snapshot, candidate: Snapshot) -> bool:
    """Tell whether two versions have the same files, in other places perhaps."""
    before, after = latest.manifest.fragments, candidate.manifest.fragments
    known = set(before.encoded)
    return len(before) == len(after) and all(
        now in known or _nowhere(old) == _nowhere(new)
        for now, old, new in zip(after.encoded, before, after, strict=True)
    )


def _nowhere(fragment: Fragment) -> Fragment:
    """Return a fragment without the places of its files."""
    files = tuple(replace(file, base_id=None) for file in fragment.files)
    deletion = fragment.deletion_file
    return replace(
        fragment, files=files, deletion_file=deletion and replace(deletion, base_id=None)
    )


def field_ids(schema: LanceSchema, columns: Iterable[str]) -> frozenset[int]:
    """Return the ids of columns, of what they are in, and of what is in them."""
    chains = [find_field(schema, path) for path in columns]
    above = {field.id for chain in chains for field in chain}
    return frozenset(above.union(*({f.id for f in chain[-1].walk()} for chain in chains)))


def _stored(fragment: Fragment, ids: frozenset[int]) -> Mapping[int, Hashable]:
    """Return where the values of fields lie; a copy in another place has the file's name."""
    return {
        id_: (file.path, column)
        for file, columns in zip(fragment.files, columns_of_files(fragment), strict=True)
        for id_, column in columns.items()
        if id_ in ids
    }
