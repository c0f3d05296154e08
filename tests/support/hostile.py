"""Manifests made to harm their reader: huge counts in few bytes, paths that lead elsewhere.

Run as a program it opens datasets in a process whose memory is limited, and prints which step
refused each.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancekit as lk
from lancekit import errors
from lancekit._format.pb import rowids_pb2, schema_pb2, table_pb2
from tests.support.patience import at_most

__all__ = ["COUNTS", "STEPS", "alter", "notice", "run_steps"]

EXTRA_BYTES = 1 << 29
SECONDS = 30
ROWS = pa.table({"k": pa.array([1, 2, 3, 4], pa.int64()), "s": ["a", "b", None, "d"]})

ROW_COLUMNS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]

Message = Any
#: changes the message of a manifest, and that of its first fragment
Alter = Callable[[Message, Message], object]

#: what a reader does with a dataset, in the order in which it would notice
STEPS: dict[str, Callable[[str], Any]] = {
    "opening": lk.dataset,
    "looking": lambda path: _look(lk.dataset(path)),
    "reading": lambda path: lk.dataset(path).to_table(),
    "row ids": lambda path: lk.dataset(path).to_table(columns=ROW_COLUMNS),
    "validating": lambda path: lk.dataset(path).validate(deep=True),
    "writing": lambda path: lk.dataset(path).insert(ROWS),
}


def _look(ds: Any) -> None:
    repr(ds)
    len(ds)
    ds.config()
    str(list(ds.versions()))
    str(ds.get_transactions())
    str([fragment.metadata for fragment in ds.get_fragments()])


def notice(path: str, steps: tuple[str, ...]) -> str:
    """Return the step at which damage is noticed, empty if none is; other errors pass."""
    for name in steps:
        try:
            STEPS[name](path)
        except (errors.FormatError, errors.UntrustedBaseError):
            return name
    return ""


def alter(path: Path, change: Alter) -> None:
    """Change the message of the only manifest of a dataset."""
    (file,) = (path / "_versions").glob("*.manifest")
    data = file.read_bytes()
    (start,) = struct.unpack_from("<q", data, len(data) - 16)
    (length,) = struct.unpack_from("<I", data, start)
    message = table_pb2.Manifest.FromString(data[start + 4 : start + 4 + length])
    first = table_pb2.DataFragment.FromString(message.fragments[0])
    change(message, first)
    message.fragments[0] = first.SerializeToString()
    body = message.SerializeToString()
    file.write_bytes(data[:start] + struct.pack("<I", len(body)) + body + data[-16:])


# ---- huge counts


def _row_ids(**segment: Any) -> Alter:
    sequence = rowids_pb2.RowIdSequence(segments=[rowids_pb2.U64Segment(**segment)])

    def change(message: Message, fragment: Message) -> None:
        message.reader_feature_flags |= 2
        message.writer_feature_flags |= 2
        message.next_row_id = 1 << 60
        fragment.inline_row_ids = sequence.SerializeToString()

    return change


def _versions(count: int) -> Alter:
    span = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=0, end=count))
    run = rowids_pb2.RowDatasetVersionRun(span=span, version=1)
    runs = rowids_pb2.RowDatasetVersionSequence(runs=[run]).SerializeToString()
    ids = rowids_pb2.U64Segment.Range(start=0, end=4)

    def change(message: Message, fragment: Message) -> None:
        _row_ids(range=ids)(message, fragment)
        fragment.inline_created_at_versions = runs
        fragment.inline_last_updated_at_versions = runs

    return change


def _used_up(message: Message, fragment: Message) -> None:
    _versions(4)(message, fragment)
    message.next_row_id = (1 << 64) - 1


def _set(name: str, value: Any) -> Alter:
    return lambda message, fragment: setattr(message, name, value)


def _set_in_fragment(name: str, value: Any) -> Alter:
    return lambda message, fragment: setattr(fragment, name, value)


def _set_in_file(name: str, value: Any) -> Alter:
    return lambda message, fragment: setattr(fragment.files[0], name, value)


def _column(place: int) -> Alter:
    return lambda message, fragment: fragment.files[0].column_indices.__setitem__(0, place)


def _set_in_field(name: str, value: Any) -> Alter:
    return lambda message, fragment: setattr(message.fields[0], name, value)


def _nested(message: Message, fragment: Message) -> None:
    """Give the schema structs within structs, thousands deep."""
    for number in range(20_000):
        message.fields.add(
            id=100 + number,
            parent_id=99 + number if number else -1,
            name="n",
            logical_type="struct",
            type=schema_pb2.Field.PARENT,
        )


def _huge_nulls(message: Message, fragment: Message) -> None:
    """Give the schema a column that is in no file, of lists of 2**31 numbers."""
    kind = "fixed_size_list:int64:2147483647"
    message.fields.add(id=9, parent_id=-1, name="n", logical_type=kind, nullable=True)


_SEGMENT = rowids_pb2.U64Segment
_HUGE = {"start": 0, "end": 1 << 60}
_HOLES = rowids_pb2.EncodedU64Array(
    u16_array=rowids_pb2.EncodedU64Array.U16Array(base=(1 << 64) - 1, offsets=b"\1\0\2\0")
)

#: by name: a change that claims far more than is there
COUNTS: dict[str, Alter] = {
    "2**60 row ids": _row_ids(range=_SEGMENT.Range(**_HUGE)),
    "2**60 row ids with holes": _row_ids(
        range_with_holes=_SEGMENT.RangeWithHoles(**_HUGE, holes=_HOLES)
    ),
    "a bitmap of 2**60 row ids": _row_ids(
        range_with_bitmap=_SEGMENT.RangeWithBitmap(**_HUGE, bitmap=b"\xff" * 8)
    ),
    "a range that ends before it starts": _row_ids(range=_SEGMENT.Range(start=9, end=1)),
    "row ids that wrap around": _row_ids(array=_HOLES),
    "2**60 row versions": _versions(1 << 60),
    "2**63 rows": _set_in_fragment("physical_rows", 1 << 63),
    "2**40 rows": _set_in_fragment("physical_rows", 1 << 40),
    "2**32 rows": _set_in_fragment("physical_rows", 1 << 32),
    "no rows": _set_in_fragment("physical_rows", 0),
    "2**63 deleted rows": lambda message, fragment: fragment.deletion_file.MergeFrom(
        table_pb2.DeletionFile(num_deleted_rows=1 << 63)
    ),
    "fragment 2**63": _set_in_fragment("id", 1 << 63),
    "fragments up to 2**32": _set("max_fragment_id", (1 << 32) - 1),
    "version 2**63": _set("version", (1 << 63) - 1),
    "the last version": _set("version", (1 << 64) - 1),
    "row ids used up": _used_up,
    "a file of 2**63 bytes": _set_in_file("file_size_bytes", 1 << 63),
    "a file of 2**40 bytes": _set_in_file("file_size_bytes", 1 << 40),
    "column 2**31": _column((1 << 31) - 1),
    "column -1": _column(-1),
    "field 2**31": _set_in_field("id", (1 << 31) - 1),
    "a year beyond time": lambda message, fragment: setattr(message.timestamp, "seconds", 1 << 60),
    "a list of 2**31 numbers": _set_in_field("logical_type", "fixed_size_list:int64:2147483647"),
    "20,000 structs deep": _nested,
    "nulls of 16 GiB each": _huge_nulls,
    "an index section far away": _set("index_section", 1 << 62),
    "a transaction far away": _set("transaction_section", 1 << 62),
}


def run_steps(paths: list[str], steps: tuple[str, ...] = tuple(STEPS)) -> dict[str, str]:
    """Return, by path, the step that refused it, or the error that must not happen."""
    found = {}
    for path in paths:
        try:
            with at_most(SECONDS):
                found[path] = notice(path, steps)
        except BaseException:
            found[path] = traceback.format_exc()
    return found


if __name__ == "__main__":
    warnings.simplefilter("error")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES, used + EXTRA_BYTES))
    print(json.dumps(run_steps(sys.argv[1:])))
