"""The map of fragments."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit._format.fragment import FragmentList
from tests.notebook.pictures.support import parsed, words


def _made(name="map"):
    ds = lk.write_dataset(
        {"id": np.arange(4000), "s": [f"x{i % 7}" for i in range(4000)]},
        f"memory://fragments-{name}", max_rows_per_file=1000,
    )  # fmt: skip
    ds.delete("id % 4 = 0 AND id < 1000")
    ds.create_scalar_index("s", "BITMAP")
    ds.add_columns({"w": "id * 2"})
    ds.insert({"id": [9, 10], "s": ["a", "b"], "w": [1, 2]})
    return ds


def test_what_is_said():
    ds = _made()
    assert ds.plot.fragments().text.splitlines() == [
        "Fragments of fragments-map, main:5: 5 fragments, 9 files",
        "  rows     ▆███▁  3,752 rows",
        "  deleted  █▁▁▁▁  250 rows",
        ds.plot.fragments().text.splitlines()[3],
        "  compaction   ████████████████      4 fragments into about 1",
        "  index s_idx  ████████████████      4 of 5",
        "  id +1        ████████████████████  file 1",
        "  w            ████████████████████  file 1, file 2",
    ]


def test_compaction_is_told_as_it_happens():
    ds = _made("compacted")
    before = len(ds.get_fragments())
    said = ds.plot.fragments().alt
    assert "Compaction: 4 fragments into about 1." in said
    done = ds.optimize.compact_files()
    assert (done.fragments_removed, done.fragments_added) == (4, 1)
    assert len(ds.get_fragments()) == before - 3
    assert "Compaction: nothing to do." in ds.plot.fragments().alt


def test_the_drawing():
    picture = _made("drawn").plot.fragments()
    said = words(parsed(picture))
    for part in ("compaction", "index s_idx", "id +1", "w", "4 into 1", "4 of 5"):
        assert part in said
    assert len(picture.svg) < 30_000


def test_ten_thousand_fragments():
    ds = lk.write_dataset({"x": [1]}, "memory://fragments-many")
    (one,) = ds._snapshot.manifest.fragments
    many = FragmentList.of([replace(one, id=i, physical_rows=1 + i % 90) for i in range(10_000)])
    manifest = replace(ds._snapshot.manifest, fragments=many)
    picture = ds._other(replace(ds._snapshot, manifest=manifest)).plot.fragments()
    assert "10,000 fragments" in picture.alt
    assert "a bar is the mean of 63" in " ".join(words(parsed(picture)))
    assert len(picture.svg) < 40_000


def test_a_thousand_columns_and_no_rows():
    wide = lk.write_dataset({f"c{i}": pa.array([], pa.int64()) for i in range(1000)}, "memory://w")
    assert "0 fragments with 0 rows" in wide.plot.fragments().alt
    parsed(wide.plot.fragments())


def test_sizes_that_no_file_has():
    ds = lk.write_dataset({"x": [1]}, "memory://fragments-huge")
    (one,) = ds._snapshot.manifest.fragments
    huge = replace(one, files=(replace(one.files[0], file_size_bytes=2**63),))
    manifest = replace(ds._snapshot.manifest, fragments=FragmentList.of([huge]))
    picture = ds._other(replace(ds._snapshot, manifest=manifest)).plot.fragments()
    assert "8192 PiB" in picture.alt
    parsed(picture)
