"""Draws the pictures of `pictures.md`, of the flights that left New York in 2013.

PYTHONPATH=. python docs/_pictures.py            # into docs/images
PYTHONPATH=. python docs/_pictures.py some/folder
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancekit as lk
from lancekit._picture import Picture

KINDS = ("history", "graph", "fragments", "columns", "diff", "key-filters", "mem-wal")
IMAGES = Path(__file__).parent / "images"


def drawn() -> Iterator[tuple[str, Picture]]:
    """Yield the name and the picture of each, in the working folder."""
    from benchmarks.tables import flights

    table = flights(np.random.default_rng(0), 0)
    table = table.add_column(0, "id", pa.array(range(len(table)), pa.int64()))
    months = [table.filter(pc.equal(table["month"], month)) for month in range(1, 8)]
    ds = lk.write_dataset(months[0], "flights.lance", primary_key="id", commit_message="January")
    ds.tags.create("winter", 1)
    for month in months[1:4]:
        half = len(month) // 2
        ds.insert(month.slice(0, half))
        ds.insert(month.slice(half))
    trial = ds.create_branch("no-ferries")
    trial.delete("distance < 100")
    trial.update({"dep_delay": "0.0"}, where="dep_delay < 0")
    ds.tags.create("spring", ds.version)
    ds.branches.merge("no-ferries")
    ds.insert(months[4])
    trial.delete("air_time > 600")
    ds.create_branch("study/delays", "spring").delete("arr_delay IS NULL")
    ds.create_scalar_index("carrier", "BITMAP")
    ds.insert(months[5].slice(0, 9000))
    ds.insert(months[5].slice(9000))
    ds.update({"air_time": "air_time + 1"}, where="carrier = 'UA' AND month = 6")
    ds.insert(months[6])
    ds.shallow_clone("study.lance", ds.version)
    study = lk.dataset("study.lance")
    study.delete("month < 6")
    yield "history", ds.plot.history()
    yield "graph", ds.plot.graph(clones=[study])
    yield "fragments", ds.plot.fragments()
    names = ["dep_delay", "arr_delay", "carrier", "origin", "distance", "month"]
    yield "columns", ds.plot.columns("winter", columns=names, sample=10**6)
    yield "diff", ds.diff("spring", 9).plot()

    for start, number in ((10**6, 40), (10**6 + 30, 400)):
        keys = pa.table({"id": pa.array(range(start, start + number), pa.int64())})
        ds.merge_insert("id").when_not_matched_insert_all().execute(keys)
    yield "key-filters", ds.plot.key_filters()

    logs = lk.write_dataset({"id": [0], "delay": [0]}, "live.lance", primary_key="id")
    logs.initialize_mem_wal(unsharded=True)
    shards = [str(UUID(int=number << 96)) for number in (0xA71D3C02, 0x3B90C4E1, 0xC08F5512)]
    for shard, rows in zip(shards, ([40, 60, 20], [25], [80]), strict=True):
        for number, count in enumerate(rows):
            with logs.mem_wal_writer(shard) as writer:
                writer.put(
                    {"id": range(1000 * number, 1000 * number + count), "delay": [1] * count}
                )
        if shard == shards[1]:
            logs.merge_mem_wal([shards[1]])
    with logs.mem_wal_writer(shards[1]) as writer:
        writer.put({"id": [1], "delay": [2]})
        yield "mem-wal", logs.plot.mem_wal()


def main(place: Path = IMAGES) -> None:
    """Write an SVG for each."""
    place = place.resolve()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, picture in drawn():
            picture.save(place / f"pictures-{name}.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
