"""Data files one of whose numbers is another: counts, widths and sizes in the metadata of pages.

Run as a program it reads such files in a process whose memory is limited.  An allocation that fails
is a failure of the reader: what cannot be must be refused before memory is asked for.
"""

from __future__ import annotations

import json
import pickle
import random
import resource
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.any_pb2 import Any as AnyMessage

from lancekit._file.container.footer import ARRAY_ENCODING, FOOTER
from lancekit._format.pb import encodings_v20_pb2, encodings_v21_pb2, file2_pb2
from lancekit.errors import CorruptFileError, FormatError, LancekitError
from tests.file.lance_io import open_ours
from tests.support.patience import at_most

__all__ = ["altered", "read_all_ways"]

EXTRA_BYTES = 1 << 30
SECONDS = 60
NUMBERS = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 64, 127, 128, 255, 1024, 1025, 65_535, 1 << 20,
           (1 << 31) - 1, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)  # fmt: skip
NO_MEMORY = ("Unable to allocate", "malloc of size", "realloc of size", "MemoryError")

Message = Any


def altered(data: bytes, rng: random.Random) -> bytes:
    """Return a file with another number somewhere in what describes its pages."""
    first, tables, globals_at, buffers, columns, *version, magic = FOOTER.unpack(
        data[-FOOTER.size :]
    )
    places = [
        (
            int.from_bytes(data[at : at + 8], "little"),
            int.from_bytes(data[at + 8 : at + 16], "little"),
        )
        for at in range(tables, tables + 16 * columns, 16)
    ]
    stored = [data[start : start + size] for start, size in places]
    which = rng.randrange(columns)
    stored[which] = _with_another_number(stored[which], rng)
    out = bytearray(data[:first])
    table = bytearray()
    for metadata in stored:
        table += len(out).to_bytes(8, "little") + len(metadata).to_bytes(8, "little")
        out += metadata
    at = len(out)
    out += table + data[globals_at : globals_at + 16 * buffers]
    footer = (first, at, at + len(table), buffers, columns, *version, magic)
    return bytes(out + FOOTER.pack(*footer))


def _with_another_number(stored: bytes, rng: random.Random) -> bytes:
    column = file2_pb2.ColumnMetadata.FromString(stored)
    if not column.pages:
        return stored
    page = rng.choice(column.pages)
    packed = AnyMessage.FromString(page.encoding.direct.encoding)
    kind: Any = encodings_v21_pb2.PageLayout
    if packed.type_url == ARRAY_ENCODING:
        kind = encodings_v20_pb2.ArrayEncoding
    encoding = kind.FromString(packed.value)
    numbers = [*_numbers(encoding), *(found for found in _numbers(page) if found[1] != "priority")]
    message, name, place = rng.choice(numbers)
    for _ in range(20):  # until one that the field has room for
        try:
            number = rng.choice(NUMBERS)
            if place is None:
                setattr(message, name, number)
            else:
                getattr(message, name)[place] = number
        except ValueError:
            continue
        break
    packed.value = encoding.SerializeToString()
    page.encoding.direct.encoding = packed.SerializeToString()
    return column.SerializeToString()


def _numbers(message: Message) -> Iterator[tuple[Message, str, int | None]]:
    """Yield every number of a message, set or not, and of those below it."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            below = list(value) if field.is_repeated else [value] * message.HasField(field.name)
            for inner in below:
                yield from _numbers(inner)
        elif field.cpp_type not in (field.CPPTYPE_STRING, field.CPPTYPE_BOOL):
            if field.is_repeated:
                yield from ((message, field.name, place) for place in range(len(value)))
            elif field.containing_oneof is None or message.HasField(field.name):
                yield message, field.name, None


def read_all_ways(data: bytes) -> str:
    """Read a file; return what came of it."""
    try:
        reader = open_ours(data, "fuzzed.lance")
        fields = reader.columns
        for rows in (range(0, 1), None, np.arange(0, reader.num_rows, 3)):
            reader.read(fields, rows).validate()
        next(reader.read_batches(fields, None, 10), None)
    except CorruptFileError as error:
        said = str(error)
        if "fuzzed.lance" not in said or any(words in said for words in NO_MEMORY):
            raise AssertionError(said) from error
        return "damaged"
    except (FormatError, LancekitError) as error:
        return error.kind
    return "read"


def main(corpus: str, times: str, seed: str) -> None:
    """Alter each file of a pickled corpus so many times; print the outcomes as JSON."""
    warnings.simplefilter("error")
    files = pickle.loads(Path(corpus).read_bytes())
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES, used + EXTRA_BYTES))
    outcomes: Counter[str] = Counter()
    failures = []
    for number, (name, data) in enumerate(files.items()):
        rng = random.Random(int(seed) + number)
        for time in range(int(times)):
            broken = altered(data, rng)
            try:
                with at_most(SECONDS):
                    outcomes[read_all_ways(broken)] += 1
            except BaseException:
                failures.append(f"{name}, time {time}:\n{traceback.format_exc()}")
    print(json.dumps({"outcomes": outcomes, "failures": failures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
