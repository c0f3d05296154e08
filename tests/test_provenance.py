"""What versions say of where they come from: only what was asked for, bounded, without secrets."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit import provenance
from lancekit.notebook import show_html, show_text
from lancekit.provenance import MOST_SOURCE, PREFIX, Provenance


def own(ds: Any, version: int) -> dict[str, str]:
    """Return what the reference reads of a version."""
    found = lance.dataset(ds.uri).read_transaction(version).transaction_properties
    return {key.removeprefix(PREFIX): found[key] for key in found if key.startswith(PREFIX)}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Provenance:
    """A cell that runs, as its kernel would say."""
    cell = Provenance(notebook="cleaning.ipynb", cell="12", source="ds.insert(rows)")
    monkeypatch.setattr(provenance, "_finders", [lambda: cell])
    monkeypatch.setattr(provenance, "_user", lambda: "ana")
    return cell


def test_nothing_is_recorded_unasked(tmp_path: Path, found: Provenance) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    assert own(ds, 1) == {}
    with lk.options(provenance="names"):
        ds.insert({"x": [2]})
    assert own(ds, 2) == {"notebook": "cleaning.ipynb", "cell": "12", "user": "ana"}
    with lk.options(provenance="source"):
        ds.delete("x = 1")
    assert own(ds, 3) == {**own(ds, 2), "source": "ds.insert(rows)"}
    ds.insert({"x": [2]})
    assert own(ds, 4) == {}


def test_every_kind_of_commit_says_it(tmp_path: Path, found: Provenance) -> None:
    with lk.options(provenance="names"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d", transaction_properties={"mine": "1"})
        ds.update_config({"a": "b"})
        ds.create_scalar_index("x", "BTREE")
        branch = ds.create_branch("b")
        copy = ds.shallow_clone(str(tmp_path / "c"), 1)
        ds.restore()
    for version in (*ds.versions(), *branch.versions()[-1:], *copy.versions()):
        assert str(version.provenance) == "cell 12 of cleaning.ipynb by ana"
    assert lance.dataset(ds.uri).read_transaction(1).transaction_properties["mine"] == "1"


def test_what_is_said_already_stays(tmp_path: Path, found: Provenance) -> None:
    said = {PREFIX + "application": "loader"}
    with lk.options(provenance="source"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d", transaction_properties=said)
    assert own(ds, 1) == {"application": "loader"}
    assert str(ds.get_version().provenance) == "Spark application loader"


def test_it_is_shown(tmp_path: Path, found: Provenance) -> None:
    with lk.options(provenance="source"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
        late = lk.dataset(ds.uri)
        lk.write_dataset({"x": [2]}, ds, mode="overwrite")
    told = "cell 12 of cleaning.ipynb by ana"
    with pytest.raises(lk.errors.CommitConflictError) as caught:
        late.insert({"x": [3]})
    for value in (ds.versions(), ds.versions()[0], ds.read_transaction(1), caught.value):
        assert told in show_text(value)
    assert "its text: .source()" in show_text(ds.versions()[0])
    assert "ds.insert" not in show_text(ds.read_transaction(1))
    assert ds.blame()["_changed_from"].to_pylist() == [told]
    kept = pickle.loads(pickle.dumps(ds.versions()[0]))
    assert kept.source() == "ds.insert(rows)"


def test_texts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "é\ud800" * MOST_SOURCE
    monkeypatch.setattr(provenance, "_finders", [lambda: Provenance(cell="1", source=text)])
    with lk.options(provenance="source"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    stored = own(ds, 1)
    assert len(stored["source"].encode()) in range(MOST_SOURCE - 3, MOST_SOURCE + 1)
    assert stored["cut"] == str(3 * MOST_SOURCE)
    assert f"cut, of {stored['cut']} bytes" in show_text(ds.get_version())
    endless = {PREFIX + "source": "a" * 10**6, PREFIX + "user": "b" * 10**6}
    made = Provenance.of(endless)
    assert made is not None
    assert len(made.source) < MOST_SOURCE
    assert len(made.user) < 300


@pytest.mark.parametrize(
    "line",
    [
        'lk.dataset("s3://KEY:hidden@bucket/a?sig=hidden")',
        'options = {"aws_secret_access_key": "hidden", \'session_token\': \'hid"den\'}',
        "password = 'hidden'; AccountKey=hidden==",
        'f(api_key="hid\\"hidden", token = r"hidden")',
        '{"azure_storage_account_key":"hidden',
        'os.environ["DB_PASSWORD"] = "hidden"',
        "secret: str = '''hidden'hidden\nhidden'''",
        'passphrase=f"hidden", session_token = (\n"hidden")',
        "%env MY_TOKEN=hidden",
        "  %env SECRET hidden",
        "!export API_KEY=hidden && run",
        'h = {"Authorization": "Bearer hidden"}; r = f("Bearer hidden")',
        "k = 'ghp_hiddenhiddenhiddenhidden'",
    ],
)
def test_credentials_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(provenance, "_finders", [lambda: Provenance(cell="1", source=line)])
    with lk.options(provenance="source"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    assert "hid" not in own(ds, 1)["source"]
    assert "***" in own(ds, 1)["source"]


def test_code_without_credentials_stays_as_it_is() -> None:
    text = 'for token in tokens: count["a"] += 1\nds.insert(rows, mode="append")  # secrets'
    text += "\n%time token\n!ls token"
    made = provenance._recordable(Provenance(source=text))
    assert (made.source, made.cut) == (text, "")


def test_hostile_text_is_spelled_out() -> None:
    evil = "<b>\u202e\x1b[2J"
    names = {PREFIX + name: evil for name in Provenance.__slots__}
    made = Provenance.of({**names, PREFIX + "source": f"a\n{evil}"})
    assert made is not None
    assert made.source == "a\n<b>\\u202e\\x1b[2J"
    assert not set(str(made)) & {"\u202e", "\x1b"}
    ds = lk.write_dataset({"x": [1]}, "memory://hostile-provenance", transaction_properties=names)
    html = show_html(ds.versions()) + show_html(ds.get_version())
    assert "<b>\\u202e" not in html
    assert "&lt;b&gt;\\u202e" in html


def test_a_script_says_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "def write():\n\n    lk.write_dataset({'x': [1]}, place)\nwrite()\n"
    monkeypatch.setattr(sys, "argv", ["/home/ana/nightly.py", "--all"])
    with lk.options(provenance="source"):
        exec(script, {"__name__": "__main__", "lk": lk, "place": tmp_path / "d"})
    found = lk.dataset(tmp_path / "d").get_version().provenance
    assert found is not None
    assert (found.script, found.line, found.source) == ("nightly.py", "3", "")
    assert str(found).startswith("nightly.py, line 3")


def test_a_finder_that_fails_stops_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_finders", [lambda: 1 / 0])
    monkeypatch.setattr(sys, "argv", [])
    with lk.options(provenance="names"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    assert own(ds, 1).keys() <= {"user"}
