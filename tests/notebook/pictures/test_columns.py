"""Column statistics of two versions."""

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from tests.notebook.pictures.support import NAMES, parsed, words


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
    assert "all 3\u202f000 rows of main:1" in picture.text
    said = words(parsed(picture))
    for part in ("carrier", "delay", "day", "1970-01-01", "DL"):
        assert part in said
    assert any("population stability index, drift from 0.2" in text for text in said)


def test_a_sample_says_so(ds):
    picture = ds.plot.columns(1, columns=["delay"], sample=500, measure="ks")
    assert "500 of 3\u202f000 rows of main:1, 500 of 3\u202f000 rows of main:2" in picture.alt
    assert "Kolmogorov-Smirnov distance, drift from 0.1" in picture.alt
    assert picture.text == ds.plot.columns(1, columns=["delay"], sample=500, measure="ks").text


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
