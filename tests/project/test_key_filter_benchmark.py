"""The benchmark of key filters runs, draws, and finds what the page about them says."""

from __future__ import annotations

from pathlib import Path

from benchmarks.key_filters import costs, curve, draw


def test_the_curve_shows_which_test_errs(tmp_path: Path) -> None:
    few, many = curve((10, 200), trials=20)
    assert few.false_conflicts["Bloom, any bit (reference)"] < 0.5
    assert many.false_conflicts["Bloom, any bit (reference)"] > 0.9
    assert many.false_conflicts["Bloom, block by block"] == 0
    assert many.false_conflicts["exact in Bloom"] == many.false_conflicts["exact"] == 0
    draw([few, many], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_costs_are_measured() -> None:
    lines = costs()
    assert {keys for keys, *_ in lines} == {10, 50, 1000, 8192}
    assert all(build > 0 and compare > 0 for _, _, build, compare, _ in lines)
