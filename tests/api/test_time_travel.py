"""Versions by a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, TagNotFoundError, VersionNotFoundError


@pytest.fixture
def table(tmp_path: Path) -> lk.LanceDataset:
    ds = lk.write_dataset({"v": [1]}, tmp_path / "t")
    for value in range(2, 7):
        ds.insert({"v": [value]})
    return ds


def time_of(ds: lk.LanceDataset, version: int) -> datetime:
    return next(v.timestamp for v in ds.versions() if v.version == version)


def test_each_way_to_say_it(table: lk.LanceDataset) -> None:
    moment = time_of(table, 3)
    for found in (
        table.at(moment),
        table.at(asof=moment),
        table.at(asof=moment.isoformat()),
        lk.dataset(table.uri, asof=moment),
    ):
        assert found.version == 3
    assert table.diff(moment).old == ("main", 3)
    assert table.at(asof=moment - timedelta(microseconds=1)).version == 2


def test_so_long_ago(table: lk.LanceDataset) -> None:
    for now in (timedelta(0), timedelta(microseconds=-1)):
        assert table.at(now).version == table.at(asof=now).version == 6
        assert lk.dataset(table.uri, asof=now).version == 6
        assert table.diff(now).old == ("main", 6)
    fourth, begun = time_of(table, 4), datetime.now(UTC)
    found = table.at(asof=fourth - begun).version  # counted back from a moment after the first
    took = datetime.now(UTC) - begun
    assert found >= 4
    assert time_of(table, found) <= fourth + took
    with pytest.raises(
        VersionNotFoundError, match="before the first remaining version: version 1 "
    ):
        table.at(timedelta(hours=-2))
    with pytest.raises(InvalidArgumentError, match="in the future"):
        table.at(asof=timedelta(hours=2))
    with pytest.raises(InvalidArgumentError, match="before year 1"):
        table.at(asof=timedelta.min)


def test_a_text_is_a_tag_unless_it_is_said_to_be_a_time(table: lk.LanceDataset) -> None:
    with pytest.raises(TagNotFoundError):
        table.at("2030-01-01 00:00:00+00:00")
    assert table.at(asof="2230-01-01 00:00:00+00:00").version == 6
    with pytest.raises(InvalidArgumentError, match="asof='jan' is not a time"):
        table.at(asof="jan")
    for both in ({}, {"when": 1, "asof": timedelta(0)}):
        with pytest.raises(InvalidArgumentError, match="needs either when or asof"):
            table.at(**both)


def test_a_time_at_which_a_version_was_the_newest_that_is_gone(table: lk.LanceDataset) -> None:
    times = {version.version: version.timestamp for version in table.versions()}
    table.tags.create("second", 2)
    table.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert [v.version for v in table.versions()] == [2, 6]
    assert table.at(times[2]).version == 2
    assert table.at(times[6]).version == 6
    for gone in (3, 4, 5):
        for look in (table.at, lambda when: lk.dataset(table.uri, asof=when)):
            with pytest.raises(VersionNotFoundError, match=r"between 2 of .* and 6 of") as error:
                look(times[gone])
            assert error.value.context["nearest"] == (2, 6)
    with pytest.raises(VersionNotFoundError, match="version 2 of"):
        table.at(times[1])


def test_a_date_is_its_midnight() -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://by-date")
    with pytest.warns(UserWarning, match="local time"):
        assert lk.dataset("memory://by-date", asof=date(2099, 1, 1)).version == 1
    with pytest.warns(UserWarning, match="local time"), pytest.raises(VersionNotFoundError):
        ds.at(date(2020, 1, 1))


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("7", "version=7"), ("old:3", r"\('old', 3\)"), ("HEAD~1", r"ds.latest\(\)")],
)
def test_a_tag_that_is_another_reference(typed: str, hint: str) -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://no-tag")
    with pytest.raises(TagNotFoundError, match=hint):
        ds.checkout_version(typed)
