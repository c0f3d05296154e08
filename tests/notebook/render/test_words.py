from datetime import UTC, datetime, timedelta

import pytest

from lancekit._notebook.render import words

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (999, "999"), (336776, "336,776"), (-1000, "-1,000")],
)
def test_counts(number, expected):
    assert words.count(number) == expected


def test_changes_have_signs():
    assert [words.signed(n) for n in (0, 5, -1200)] == ["±0", "+5", "\u22121,200"]


def test_plurals():
    assert [words.plural(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert words.plural(2, "branch", "branches") == "2 branches"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (28_600_000, "27.3 MiB"),
        (200 * 2**30, "200 GiB"),
        (2**60, "1024 PiB"),
    ],
)
def test_sizes(number, expected):
    assert words.size(number) == expected


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        (timedelta(seconds=4), "just now"),
        (timedelta(seconds=-4), "just now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=59), "59 min ago"),
        (timedelta(hours=47), "47 h ago"),
        (timedelta(days=59), "59 days ago"),
        (timedelta(days=365), "12 months ago"),
        (timedelta(days=3650), "10 years ago"),
        (timedelta(minutes=-3), "3 min ahead of this clock"),
    ],
)
def test_ages(ago, expected):
    assert words.age(NOW - ago, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("zażółć 数据 🙂", "zażółć 数据 🙂"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("half\ud800", "half\\ud800"),
        ("line\u2028end", "line\\u2028end"),
    ],
)
def test_strange_characters_are_spelled_out(text, expected):
    assert words.clean(text) == expected
    words.clean(text).encode()


def test_long_strings_are_cut():
    assert len(words.clean("x" * 10_000)) == 400
    assert words.clean("x" * 10_000).endswith("…")
    assert words.cut("abc", 3) == "abc"
    assert words.cut("abcd", 3) == "ab…"


def test_listings_are_bounded():
    assert words.listing(["a", "b"], 2) == "a, b"
    assert words.listing(map(str, range(1005)), 2) == "0, 1, and 1,003 more"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("flights.lance", "flights.lance"),
        ("/no/such/place.lance", "/no/such/place.lance"),
        ("memory://x", "memory://x"),
        ("s3://KEY:SECRET@bucket/a.lance?token=SECRET#SECRET", "s3://***@bucket/a.lance?***"),
    ],
)
def test_places_hold_no_credentials(uri, expected):
    assert words.place(uri) == expected


def test_places_below_the_working_folder_are_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words.place(str(tmp_path / "a" / "b.lance")) == "a/b.lance"
    assert words.place(str(tmp_path.parent / "b.lance")) == str(tmp_path.parent / "b.lance")
