"""Bytes for the tasks of a job, in the function or, if large, in a file beside the dataset.

Every task gets the whole closure, and Spark Connect refuses a large one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice

from lancekit._format.names import DATA, data_file_name
from lancekit._pipeline.merge_strategy import CLOSURE_BYTES
from lancekit._storage.base import Bytes, Store


@dataclass(frozen=True)
class Shipment:
    """Numbered parts of bytes that tasks can read.  Can be sent to a worker.

    Two shipments are equal only if they have the same token.
    """

    token: str
    parts: tuple[Bytes, ...] = field(default=(), compare=False)
    store: Store | None = field(default=None, compare=False)
    name: str = field(default="", compare=False)
    ends: tuple[int, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.parts) or len(self.ends)

    def part(self, number: int) -> memoryview:
        """Return one part; only this part of a file is read."""
        if self.store is None:
            return memoryview(self.parts[number])
        start = self.ends[number - 1] if number else 0
        opened = self.store.open(self.name, self.ends[-1])
        return memoryview(opened.read(start, self.ends[number] - start))


@contextmanager
def shipped(
    parts: Iterable[Bytes], store: Store, most_bytes: int = CLOSURE_BYTES
) -> Iterator[Shipment]:
    """Make parts available to tasks while the block runs.

    A file is stored among the data files under a name that no version refers to.  So cleanup
    finds it if this process dies.

    parts: the bytes to send; few parts are held in memory if they go through a file.
    store: the dataset's folder.
    most_bytes: parts of more bytes together go through a file.
    """
    token = str(uuid.uuid4())
    rest, buffered, size = iter(parts), list[Bytes](), 0
    for part in rest:
        buffered.append(part)
        size += len(part)
        if size > most_bytes:
            break
    else:
        yield Shipment(token, parts=tuple(buffered))
        return
    del part
    name = f"{DATA}/{data_file_name(uuid.uuid4())}"
    sink = store.create(name)
    try:
        ends = list[int]()
        while buffered:
            sink.write(buffered.pop(0))
            ends.append(sink.tell())
            buffered += islice(rest, 1)  # one at a time, because a part can be large
        sink.close()
        yield Shipment(token, store=store, name=name, ends=tuple(ends))
    finally:
        sink.abort()
        with suppress(OSError):  # cleanup removes it later
            store.delete(name)


# ---- sizes in the format of Spark's settings: a number with an optional unit

_SIZE = re.compile(r"(-?\d+)(?:([kmgtp])i?b?|(b))?")
_UNITS = {unit: 10 * place for place, unit in enumerate("bkmgtp")}


def spark_bytes(text: str, bare: str = "b") -> int | None:
    """Parse a size; return it in bytes, or ``None`` if the text is not a size.

    text: the value of a setting.
    bare: the unit of a number without a unit.

    Examples
    --------
    >>> spark_bytes("10485760b"), spark_bytes("10MB"), spark_bytes("-1"), spark_bytes("much")
    (10485760, 10485760, -1, None)
    >>> spark_bytes("512", bare="m")
    536870912
    """
    found = _SIZE.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) << _UNITS[found[2] or found[3] or bare]
