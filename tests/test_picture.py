"""What a picture is, whoever drew it."""

import pytest

import lancekit as lk
from lancekit._picture import Picture


def test_a_picture_is_its_text_and_its_drawing():
    picture = Picture(alt="a", text="lines\nof text", render=lambda: "<svg/>")
    assert repr(picture) == str(picture) == "lines\nof text"
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == picture.text
    assert "<svg/>" in bundle["text/html"] == picture._repr_html_()


def test_what_cannot_be_drawn_says_why():
    def fail():
        raise ValueError("no \x1b ink")

    bundle = Picture(alt="a", text="lines", render=fail)._repr_mimebundle_()
    assert bundle == {
        "text/plain": "lines\n(the picture could not be drawn: ValueError: no \\x1b ink)"
    }


def test_saving(tmp_path):
    ds = lk.write_dataset({"x": [1]}, "memory://saved-pictures")
    graph, history = ds.plot.graph(), ds.plot.history()
    for picture, endings in ((graph, ("svg", "mmd", "txt")), (history, ("svg", "png", "txt"))):
        for ending in endings:
            picture.save(tmp_path / f"x.{ending}")
            assert (tmp_path / f"x.{ending}").stat().st_size
    assert (tmp_path / "x.txt").read_text() == history.text + "\n"
    with pytest.raises(lk.errors.NotOfferedError, match="no mmd"):
        history.save(tmp_path / "y.mmd")
    with pytest.raises(lk.errors.NotOfferedError, match=r"cannot be saved as PNG. Save it as SVG"):
        graph.save(tmp_path / "y.png")
    with pytest.raises(lk.errors.InvalidArgumentError, match=r"\.svg"):
        graph.save(tmp_path / "y.gif")
    assert not list(tmp_path.glob("y.*"))


def test_doors():
    ds = lk.write_dataset({"x": [1]}, "memory://picture-doors")
    assert repr(ds.plot) == "Plots(columns, fragments, graph, history, key_filters, mem_wal)"
    with pytest.raises(lk.errors.InvalidTypeError, match="LanceDataset"):
        lk.plot_history(5)
    with pytest.raises(lk.errors.InvalidTypeError, match="clones"):
        ds.plot.graph(clones=["x"])
