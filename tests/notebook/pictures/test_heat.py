"""A diff by column."""

import numpy as np

import lancekit as lk
from tests.notebook.pictures.support import NAMES, parsed, words


def test_what_changed():
    rows = {"id": np.arange(100), "v": np.arange(100), "s": ["a"] * 100}
    ds = lk.write_dataset(rows, "memory://heat", primary_key="id")
    ds.update({"v": "v + 1"}, where="id < 30")
    ds.update({"s": "'b'"}, where="id < 10")
    ds.delete("id > 95")
    ds.insert({"id": [500], "v": [1], "s": ["z"]})
    diff = ds.diff(1)
    picture = diff.plot()
    assert picture.alt == (
        "Diff main:1 → main:5. Rows: 1 inserted, 4 deleted, 30 updated, 66 unchanged. "
        "Columns: v in 30 rows, s in 10 rows."
    )
    assert picture.text.splitlines()[4:] == [
        "  2 of 3 columns changed",
        "  all columns  ▁█▃",
        "  v  ████████████████████  30",
        "  s  ██████▋               10",
    ]
    said = words(parsed(picture))
    assert {"v", "s", "30", "10", "+ inserted", "\u2212 deleted", "~ updated"} <= set(said)
    same = ds.diff(ds.version).plot()
    assert "No column of an updated row differs" in same.alt
    parsed(same)


def test_a_thousand_columns():
    rows = {"id": [1, 2], **{f"c{i}": [0, 0] for i in range(300)}, **{n: [0, 0] for n in NAMES}}
    ds = lk.write_dataset(rows, "memory://heat-wide", primary_key="id")
    merge = ds.merge_insert("id").when_matched_update_all()
    merge.execute({name: [1] for name in rows})
    picture = ds.diff(1).plot()
    assert "306 of 307 columns changed" in picture.text
    assert "294 more: diff.columns" in picture.text
    assert "4 per cell" in " ".join(words(parsed(picture)))
    assert len(picture.svg) < 30_000


def test_the_users_axes():
    from matplotlib.figure import Figure

    ds = lk.write_dataset({"id": [1], "v": [1]}, "memory://heat-ax", primary_key="id")
    ds.update({"v": "2"})
    axes = Figure().subplots()
    assert ds.diff(1).plot(ax=axes).figure is axes.figure
    assert "columns by changed values" in axes.get_title(loc="left")
