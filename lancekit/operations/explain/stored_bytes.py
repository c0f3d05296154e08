"""How many bytes of a dataset's files hold some columns, told from metadata alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lancekit.file.file_metadata import metadata_of
from lancekit.format.data_file import DataFile
from lancekit.format.paths import parse_path
from lancekit.format.schema import LanceSchema
from lancekit.scan.fragments.reader import META_COLUMNS, FragmentReader
from lancekit.scan.fragments.source import FragmentSource

__all__ = ["stored_bytes"]

#: layouts of files of which one is opened; of any more, a column has its share by number
_OPENED = 8


def stored_bytes(
    sources: Sequence[FragmentSource], schema: LanceSchema, columns: Iterable[str]
) -> int:
    """Estimate the bytes of files that hold columns.

    Of all files the manifest has the sizes.  How a size is divided among columns is looked up in
    one file of each layout.

    Parameters
    ----------
    sources
        The fragments.
    schema
        The dataset's schema.
    columns
        Names and paths; hidden columns have no bytes.
    """
    tops = {parse_path(name)[0] for name in columns if name not in META_COLUMNS}
    ids = frozenset(field.id for name in tops for field in schema.field(name).walk())
    shares: dict[tuple[object, ...], float] = {}
    total = 0.0
    for source in sources if ids else ():
        for place, file in enumerate(source.fragment.files):
            if not ids.intersection(file.fields):
                continue
            layout = (file.fields, file.version)
            if layout not in shares:
                opened = len(shares) < _OPENED
                shares[layout] = _share(source, place, ids) if opened else _by_number(file, ids)
            total += file.size_bytes * shares[layout]
    return round(total)


def _by_number(file: DataFile, ids: frozenset[int]) -> float:
    return len(ids.intersection(file.fields)) / len(file.fields)


def _share(source: FragmentSource, place: int, ids: frozenset[int]) -> float:
    """Return the share of a file's bytes that are of the fields, by the sizes of their pages."""
    file = source.fragment.files[place]
    if ids.issuperset(file.fields):
        return 1.0
    sizes = [c.size_bytes for c in metadata_of(FragmentReader(source).file(place)).columns]
    wanted = {at for id_, at in file.columns.items() if id_ in ids and at < len(sizes)}
    return sum(sizes[column] for column in wanted) / max(sum(sizes), 1)
