"""Column statistics of two versions."""

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api import column
from lancekit._notebook.explorer.views import read_summary
from lancekit._notebook.render.words import plural
from tests.notebook.pictures.support import NAMES, parsed, words
from tests.support.cards import show_text


@pytest.fixture(scope="module")
def ds():
    random = np.random.default_rng(0)
    made = lk.write_dataset(
        {
            "delay": random.normal(0, 10, 3000),
            "carrier": random.choice(["AA", "UA"], 3000),
            "day": pa.array(np.arange(3000) % 30, pa.int32()).cast(pa.date32()),
            "vector": pa.FixedSizeListArray.from_arrays(np.zeros(6000, np.float32), 2),
        },
        "memory://drifting",
    )
    made.update({"delay": "delay + 25", "carrier": "'DL'"}, where="carrier = 'UA'")
    return made


def test_which_columns_drifted(ds):
    picture = ds.plot.columns(1)
    drifted = [line.split()[0] for line in picture.text.splitlines() if "▲ drift" in line]
    assert sorted(drifted) == ["carrier", "delay"]
    assert "3 columns compared" in picture.alt
    assert "all 3,000 rows of main:1" in picture.text
    said = words(parsed(picture))
    for part in ("carrier", "delay", "day", "1970-01-01", "DL"):
        assert part in said
    assert any("population stability index, drift at 0.2 or more" in text for text in said)


def test_a_sample_says_so(ds):
    picture = ds.plot.columns(1, columns=["delay"], sample=500, measure="ks")
    for version in (1, 2):
        assert f"estimated from 500 of 3,000 rows of main:{version}" in picture.alt
    assert "Kolmogorov-Smirnov distance, drift at 0.1 or more" in picture.alt
    assert "KS ≈ 0." in picture.text
    assert any("KS ≈ 0." in text for text in words(parsed(picture)))
    assert picture.text == ds.plot.columns(1, columns=["delay"], sample=500, measure="ks").text


@pytest.fixture(scope="module")
def loads():
    """Version 48 of a table laid down in 48 loads, and one that changes 30 of its rows."""
    made, rows = None, 7000
    for load in range(48):
        x = np.full(rows, float(load))
        late = pa.array(x, mask=np.full(rows, load == 20))
        mode = "append" if made else "create"
        made = lk.write_dataset({"x": x, "late": late}, "memory://loads", mode=mode)
    made.delete("x >= 47 AND late IS NOT NULL")
    made.update({"x": "x + 1000"}, where="x = 3 AND _rowid % 233 = 0")
    return made


def test_what_a_second_reads_is_exact_and_agrees(loads, monkeypatch):
    """Nulls lie in one load: the picture, statistics and explorer have the same share."""
    monkeypatch.setattr(column, "_PATIENCE", 100)  # on a busy machine a second is short
    share = loads.count_rows("late IS NULL") / len(loads)
    assert loads["late"].statistics().null_share == share
    found = read_summary(loads, "late", lambda: False).statistics
    assert found.nulls / found.rows == share
    assert f"{share:.1%}" in show_text(loads["late"].statistics())
    picture = loads.plot.columns(48)
    assert "≈" not in picture.text + picture.alt
    assert f"all {plural(len(loads), 'row')} of main:50" in picture.text
    (line,) = [line for line in picture.text.splitlines() if line.split()[0] == "late"]
    assert line.endswith(f"2.1% to {share:.1%}")
    # the 30 rows are not drift, nor are the 7,000 that went
    assert "no drift" in picture.alt


def test_a_sample_of_loads_is_near(loads):
    """Blocks of rows are spread over all loads, however they lie."""
    share = loads.count_rows("late IS NULL") / len(loads)
    for rows in (2000, 20_000):
        found = loads["late"].statistics(rows=rows)
        assert abs(found.null_share - share) < 0.005
        assert abs(np.mean([b.rows for b in found.histogram]) * 12 / rows - 1 + share) < 0.02
        picture = loads.plot.columns(loads, columns=["late"], sample=rows)
        marked = f"≈ {found.null_share:.1%}"
        assert f"{marked} to {marked}" in picture.text
        assert "drift in late (≈ 0.00)" not in picture.alt


def test_columns_that_were_renamed_are_the_same():
    made = lk.write_dataset({"x": [1, 2, 3]}, "memory://renamed")
    made.alter_columns({"path": "x", "name": "y"})
    assert made.plot.columns(1).text.splitlines()[2].split()[0] == "y"
    assert "0 columns" in made.plot.columns(1, columns=[]).alt


def test_names_and_axes(ds):
    made = lk.write_dataset({name: [1, 2] for name in NAMES}, "memory://named-by-others")
    said = " ".join(words(parsed(made.plot.columns(1))))
    assert "$x^2$ \\" in said
    assert "<script>alert(1)</s…" in said
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert ds.plot.columns(1, ax=axes).figure is axes.figure
    assert "carrier" in axes.get_title(loc="left")


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"columns": ["none"]}, lk.errors.ColumnNotFoundError),
        ({"columns": "delay"}, lk.errors.InvalidTypeError),
        ({"sample": 0}, lk.errors.InvalidArgumentError),
        ({"measure": "chi"}, lk.errors.InvalidArgumentError),
        ({"old": 99}, lk.errors.VersionNotFoundError),
        ({"ax": 3}, lk.errors.InvalidTypeError),
        ({"ax": []}, lk.errors.InvalidTypeError),
    ],
)
def test_arguments(ds, wrong, kind):
    with pytest.raises(kind):
        ds.plot.columns(**{"old": 1, **wrong})
