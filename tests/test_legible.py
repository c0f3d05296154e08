"""What may be printed of names and values that others chose: nothing that acts, nothing secret."""

from __future__ import annotations

import logging
import pickle
import sys
import unicodedata
import warnings
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._legible import clean, clean_line, without_secrets

#: moves the cursor, turns the line, cannot be seen, or is half of a character
NASTY = "a\x1b[2J\r\nb\t\u202egnp\u2066\u200b\u00ad\ufeff\u2028\x85\x00\x7f\U000e0041\u3164"
LONE = "half\ud800"
SECRET = "SECRET+word/="


def is_safe(text: str) -> bool:
    return all(c == "\n" or c.isprintable() or unicodedata.category(c) == "Zs" for c in text)


@pytest.mark.parametrize("text", [NASTY, LONE, NASTY * 10_000])
def test_what_is_cleaned_can_be_printed(text: str) -> None:
    for cleaned in (clean(text), clean_line(text, 2000)):
        assert is_safe(cleaned)
        assert "\n" not in cleaned
        assert "\u3164" not in cleaned
        assert len(cleaned) <= 2000
        cleaned.encode()


@pytest.mark.torture
def test_every_character_is_seen_or_spelled_out(whole: bool) -> None:
    """In short runs a few of the planes 3 to 13, where next to nothing is assigned yet."""
    bare = range(0x32000, 0xE0000, 1 if whole else 101)
    for code in (*range(bare.start), *bare, *range(bare.stop, sys.maxunicode + 1, bare.step)):
        character = chr(code)
        cleaned = clean(f"a{character}b")
        assert is_safe(cleaned)
        assert cleaned in {f"a{character}b", f"a{character.encode('unicode_escape').decode()}b"}


def test_words_of_any_script_stay() -> None:
    for text in ("zażółć 数据 🙂 ❤️", "naïve\u00a0é", "日本\u3000語", "C:\\temp"):
        assert clean(text) == text


def test_of_a_long_line_both_ends_are_kept() -> None:
    line = clean_line("begin " + "x" * 100_000 + " end", 2000)
    assert line.startswith("begin x")
    assert line.endswith("x end")
    assert len(line) == 2000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/a b", "s3://bucket/a b"),
        (f"s3://KEY:{SECRET}@bucket/a", "s3://***@bucket/a"),
        ("'s3://KEY:a/b/c@bucket/a'", "'s3://***@bucket/a'"),
        ("https://KEY@host:8080/a@b", "https://***@host:8080/a@b"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("http://user:SECRET@proxy:80/", "http://***@proxy:80/"),
        ("abfss://files@acc.dfs.core.windows.net/a", "abfss://files@acc.dfs.core.windows.net/a"),
        ("abfss://files:SECRET@acc.dfs/a", "abfss://***@acc.dfs/a"),
        ("GET https://a.blob/x?sv=1&sig=SECRET&se=2 failed", "GET https://a.blob/x?*** failed"),
        ("gs://b/x#access_token=SECRET", "gs://b/x?***"),
        ("see https://host/page#part", "see https://host/page#part"),
        ("/local/x?X-Amz-Signature=SECRET&a=1", "/local/x?X-Amz-Signature=***&a=1"),
        ("AccountName=a;AccountKey=SECRET==;x=1", "AccountName=a;AccountKey=***;x=1"),
        ("k.token = 'x' AND a=1", "k.token = 'x' AND a=1"),
        ("mail me@host", "mail me@host"),
    ],
)
def test_secrets_become_stars(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
    assert without_secrets(expected) == expected


def test_the_text_of_an_error_is_safe_and_its_facts_are_as_they_were() -> None:
    error = errors.ColumnNotFoundError(
        f"no column {NASTY} in s3://k:{SECRET}@b/a.",
        details=[f"  {NASTY}"] * 500,
        hint=f"Did you mean {LONE * 10_000}?",
        column=NASTY,
    )
    for shown in (error, pickle.loads(pickle.dumps(error))):
        assert is_safe(str(shown))
        assert is_safe(repr(shown))
        assert "SECRET" not in str(shown) + repr(shown)
        assert len(str(shown)) < 50_000
        assert shown.message.count("\n") == 200
        assert shown.context["column"] == NASTY
        assert str(shown) == str(error)


def test_a_dataset_of_nasty_names_is_told_of_safely(tmp_path: Path) -> None:
    """Everything that shows names: cards, errors, plans, pictures, descriptions of files."""
    lk.write_dataset({NASTY.replace("\x00", ""): [1], "s": ["x"]}, tmp_path / "sent")
    place = (tmp_path / "sent").rename(tmp_path / "evil\u202elance\x1b[31m\n")
    ds = lk.dataset(place)
    column = ds.schema.names[0]
    ds.tags.create("t", 1)
    shown = [
        repr(ds),
        cast(Any, ds)._repr_html_(),
        repr(ds.versions()),
        repr(ds.lance_schema.fields()),
        repr(ds.get_fragments()[0].metadata),
        repr(ds.explain.update({column: "1"})),
        lk.plot_history(ds).alt,
    ]
    calls = [
        lambda: ds.to_table(columns=[NASTY]),
        lambda: ds.to_table(filter=f"`{column} = 1"),
        lambda: ds.to_table(filter=f"`{column}` = 's' AND nosuch\u202e = 2"),
        lambda: ds.insert({column: ["no"], "s": [1]}),
        lambda: ds.insert({"\x1b[2J": [1]}),
        lambda: ds.drop_columns([NASTY + "x"]),
        lambda: lk.dataset(str(place) + "\u2066 no"),
        lambda: ds.checkout_version("\x1b[2J"),
        lambda: ds.create_branch("\u202e"),
        lambda: lk.write_dataset({"x": [1]}, place),
    ]
    for call in calls:
        with pytest.raises(errors.LancekitError) as caught:
            call()
        shown.append(str(caught.value))
        shown.append(repr(caught.value))
    for text in shown:
        assert is_safe(text), text


def test_the_caret_stands_below_the_place_whatever_is_before_it(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1], "s": ["a"]}, tmp_path / "d")
    with pytest.raises(errors.PredicateError) as caught:
        ds.to_table(filter="\ts = '\u202e\x1b' AND x > 1 AND nosuch = 2")
    line, caret = str(caught.value).split("\n")[1:3]
    assert line[caret.index("^") :].startswith("nosuch = 2")


def test_storage_options_are_never_shown(tmp_path: Path) -> None:
    lk.write_dataset({"x": [1]}, tmp_path / "d")
    wrong: list[Any] = [
        SECRET,
        SECRET.encode(),
        [SECRET],
        {"aws_secret_access_key": SECRET.encode()},
        {SECRET.encode(): "x"},
        {("aws_secret_access_key", SECRET): "x"},
    ]
    for options in wrong:
        for place in (tmp_path / "d", "s3://bucket/x", "memory://x"):
            with pytest.raises(errors.InvalidTypeError) as caught:
                lk.dataset(place, storage_options=options)
            assert "SECRET" not in str(caught.value) + repr(caught.value.context)
    params: Any = {"s3://bucket": {"aws_secret_access_key": SECRET}}
    with pytest.raises(errors.NotOfferedError) as refused:
        lk.dataset(tmp_path / "d", base_store_params=params)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    "place", [f"s3://KEY:{SECRET}@bucket/a", f"https://account.blob/a?sig={SECRET}"]
)
def test_a_base_path_keeps_its_credentials_and_shows_none(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        ds.add_bases([lk.DatasetBasePath(place, "other")])
        (base,) = ds.base_paths().values()
        assert base.path == place
        clone = lk.LanceOperation.Clone(True, None, 1, place)
        with pytest.raises(errors.LancekitError) as caught:
            lk.write_dataset({"x": [2]}, ds, mode="append", target_bases=["other"])
        blob = lk.Blob.from_uri(place)
        assert blob.uri == place
        objects = [ds.base_paths(), ds, ds.read_transaction(2), ds.delta(compared_against=1)]
        objects += [ds.read_transaction(2).operation, lk.Transaction(1, clone), clone, blob]
        objects += [ds._snapshot.manifest, ds._location, base, caught.value]
        shown = [*map(repr, objects), *map(str, objects), str(base)]
        shown += [o._repr_html_() for o in objects if hasattr(o, "_repr_html_")]
    with lk.options(trusted_bases=[place]):
        shown.append(repr(lk.options))
    shown += [str(w.message) for w in warned] + [caplog.text]
    assert any("***" in text for text in shown)
    assert not [text for text in shown if "SECRET" in text]


def test_warnings_are_safe_to_read(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise RuntimeError(NASTY + f"s3://k:{SECRET}@b")

    class Odd(Exception):
        def __repr__(self) -> str:
            return NASTY

    def odd(_: object) -> None:
        raise Odd

    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    for callback in (fail, odd):
        with pytest.warns(UserWarning, match="scan_stats_callback failed") as told:
            ds.scanner(scan_stats_callback=callback).to_table()
        for one in told:
            assert is_safe(str(one.message))
            assert "SECRET" not in str(one.message)


def test_a_data_file_of_nasty_names_is_described_safely(tmp_path: Path) -> None:
    from lancekit.file import LanceFileReader, LanceFileWriter

    with LanceFileWriter(str(tmp_path / "f.lance")) as writer:
        writer.write_batch(pa.table({"a\u202e\x1b": [1]}))
    reader = LanceFileReader(str(tmp_path / "f.lance"))
    assert is_safe(str(reader.metadata()))
    assert is_safe(repr(reader))
