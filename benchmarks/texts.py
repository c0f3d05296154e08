"""``python -m benchmarks.texts``: what each encoding of text costs, by kind of text.

For every way to write a column: the share of Arrow's bytes that its file takes, and the processor's
milliseconds for reading all of it, and a thousand rows here and there (fewer of long texts), with
compiled kernels and without.  Nothing that was decoded is remembered.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.files import open_ours, write_theirs
from benchmarks.markdown import table
from benchmarks.tables import categories, strings, text, urls, uuids
from lancekit._file.encodings import choose_strings
from lancekit._file.encodings.choose_strings import Codec
from lancekit._file.reader import FileReader
from lancekit._file.writer import FileWriter
from lancekit._storage.local import LocalStore

__all__ = ["measure"]

_ROUNDS = 7

#: name -> (rows, what makes them)
TEXTS: dict[str, tuple[int, Callable[[np.random.Generator, int], Any]]] = {
    "names of 6 to 14 bytes": (500_000, strings("etaoinshrdlucmfw", 6, 14, pa.string())),
    "sentences of 45 bytes": (500_000, text(8)),
    "documents of 1.7 KB": (20_000, text(300)),
    "UUIDs": (300_000, uuids),
    "URLs": (300_000, urls),
    "one of 1,000 words": (500_000, categories),
}

_KIB = 1 << 10

#: name -> the only way that is tried, whatever it saves
_WAYS = {
    "FSST": Codec("fsst", None, 16 * _KIB, 16 * _KIB, 9),
    **{
        f"LZ4, {size} KiB": Codec("lz4", None, size * _KIB, size * _KIB, 9)
        for size in (2, 4, 8, 16)
    },
    **{f"Zstd, {size} KiB": Codec("zstd", 1, size * _KIB, size * _KIB, 9) for size in (4, 16, 32)},
}

_GOALS = ("balance", "scan", "take", "size")


@contextmanager
def _only(way: Codec) -> Iterator[None]:
    """Have text written in one way."""
    known = choose_strings.CODECS["balance"]
    choose_strings.CODECS["balance"] = (way,)
    try:
        yield
    finally:
        choose_strings.CODECS["balance"] = known


def _write(rows: pa.Table, goal: str, path: Path) -> None:
    sink = LocalStore(path.parent, fsync=False).create(path.name)
    writer = FileWriter(sink, rows.schema, optimize_for=goal)
    for batch in rows.to_batches():
        writer.write(batch)
    writer.finish()


def _files(rows: pa.Table, folder: Path) -> Iterator[tuple[str, Path]]:
    """Write a table in every way."""
    for goal in _GOALS:
        path = folder / f"{goal}.lance"
        _write(rows, goal, path)
        yield f'`"{goal}"`', path
    for name, way in _WAYS.items():
        path = folder / f"{name}.lance"
        with _only(way):
            _write(rows, "balance", path)
        yield name, path
    theirs = folder / "theirs.lance"
    write_theirs(rows, theirs, "2.2")
    yield "pylance's file", theirs


def _scan(reader: FileReader) -> object:
    return reader.read(reader.columns)


def _take(places: Any, reader: FileReader) -> object:
    return reader.read(reader.columns, places)


def measure(name: str, folder: Path, share: float = 1.0) -> Iterator[list[str]]:
    """Yield a line for each way to write a kind of text: encoding, size, and milliseconds."""
    rows, make = TEXTS[name]
    rng = np.random.default_rng(1)
    rows = int(rows * share)
    written = pa.table({"c": make(rng, rows)})
    places = np.sort(rng.choice(rows, min(1000, rows // 100), replace=False))
    runs: list[Callable[[FileReader], object]] = [_scan, partial(_take, places)]
    files = dict(_files(written, folder))
    least: dict[str, list[float]] = {file: [np.inf] * 4 for file in files}
    for _ in range(_ROUNDS):
        for number, (run, kernels) in enumerate((run, k) for run in runs for k in (True, False)):
            for file, path in files.items():
                with lk.options(kernels=kernels):
                    reader = open_ours(path)
                    started = time.process_time()
                    run(reader)
                    taken = time.process_time() - started
                least[file][number] = min(least[file][number], taken * 1e3)
    for file, path in files.items():
        (column,) = lk.file.LanceFileReader(str(path)).metadata().columns
        share = path.stat().st_size / written.nbytes
        numbers = [f"{number:.1f}" for number in least[file]]
        yield [file, column.pages[0].encoding, f"{share:.2f}", *numbers]


def main() -> None:
    """Print a table of all kinds of text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.texts", description=__doc__)
    parser.add_argument("--only", action="append", help="kinds whose name holds this word")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    chosen = parser.parse_args()
    lk.options.cache_bytes = 0
    lk.warm_up(spark=False)
    heading = ["written", "as", "size", "scan", "scan, NumPy", "take", "take, NumPy"]
    for name in TEXTS:
        if chosen.only and not any(word in name for word in chosen.only):
            continue
        print(f"{name}\n")
        with tempfile.TemporaryDirectory() as folder:
            print(table(heading, list(measure(name, Path(folder), 0.1 if chosen.quick else 1.0))))


if __name__ == "__main__":
    main()
