"""What versions say of where they come from: only what was asked for, bounded, without secrets."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit import _provenance as provenance
from lancekit._hooks import hooks
from lancekit._provenance import MOST_SOURCE, PREFIX, Provenance
from tests.support.cards import show_html, show_text


def own(ds: Any, version: int) -> dict[str, str]:
    """Return what the reference reads of a version."""
    found = lance.dataset(ds.uri).read_transaction(version).transaction_properties
    return {key.removeprefix(PREFIX): found[key] for key in found if key.startswith(PREFIX)}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Provenance:
    """A cell that runs, as its kernel would say."""
    cell = Provenance(notebook="cleaning.ipynb", cell="12", source="ds.insert(rows)")
    monkeypatch.setattr(hooks, "finders", [lambda: cell])
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


def every_kind(place: Path) -> Iterator[tuple[str, lk.LanceDataset]]:
    """Commit in every way there is: which one, and the dataset that got a version."""
    rows = {"x": [1, 2]}
    ds = lk.write_dataset(rows, place / "d", primary_key="x")
    yield "create", ds
    yield "append", lk.write_dataset({"x": [3]}, ds, mode="append")
    ds.checkout_latest()
    ways: dict[str, Callable[[], Any]] = {
        "update": lambda: ds.update({"x": "x + 10"}),
        "delete": lambda: ds.delete("x = 13"),
        "merge": lambda: ds.merge_insert("x").when_not_matched_insert_all().execute({"x": [4, 5]}),
        # before there is an index: pylance cannot read a transaction that moves one
        "compact": ds.optimize.compact_files,
        "index": lambda: ds.create_scalar_index("x", "BTREE"),
        "optimize indices": lambda: (ds.insert({"x": [6]}), ds.optimize.optimize_indices()),
        "drop index": lambda: ds.drop_index("x_idx"),
        "config": lambda: ds.update_config({"a": "b"}),
        "auto cleanup": lambda: ds.optimize.enable_auto_cleanup(
            {"interval": 99, "older_than_seconds": 99}
        ),
        "no cleanup": ds.optimize.disable_auto_cleanup,
        "metadata": lambda: ds.update_schema_metadata({"a": "b"}),
        "constraint": lambda: ds.constraints.add("small", "x < 99"),
        "columns": lambda: ds.add_columns({"y": "x + 1"}),
        "alter": lambda: ds.alter_columns({"path": "y", "name": "z"}),
        "drop column": lambda: ds.drop_columns(["z"]),
        "undo": ds.undo,
        "again": ds.undo,
        "restore": ds.restore,
        "truncate": ds.truncate_table,
        "overwrite": lambda: (
            lk.write_dataset(rows, ds, mode="overwrite", primary_key="x"),
            ds.checkout_latest(),
        ),
    }
    for name, work in ways.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second undo warns that the rows are back
            work()
        yield name, ds
    files = lk.fragment.write_fragments({"x": [7]}, ds)
    append = lk.LanceOperation.Append(files)
    yield "commit", lk.LanceDataset.commit(ds, append, read_version=ds.version)
    ds.checkout_latest()
    batch = [lk.Transaction(ds.version, append)]
    yield "batch", lk.LanceDataset.commit_batch(ds, batch)["dataset"]
    ds.checkout_latest()

    branch = ds.create_branch("b")
    yield "branch", branch
    branch.insert({"x": [20]})
    yield "on a branch", branch
    ds.branches.merge("b")
    yield "fast-forward", ds
    branch.insert({"x": [21]})
    ds.insert({"x": [22]})
    ds.branches.merge("b")
    yield "three-way", ds
    branch.insert({"x": [23]})
    ds.branches.cherry_pick("b", branch.version)
    yield "cherry pick", ds
    branch.insert({"x": [24]})
    ds.branches.rebase("b")
    branch.checkout_latest()
    yield "rebase", branch
    yield "shallow clone", ds.shallow_clone(str(place / "s"), ds.version)
    yield "deep clone", ds.deep_clone(str(place / "c"), ds.version)

    ds.initialize_mem_wal()
    yield "shards", ds
    with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        writer.put({"x": [30]})
    (generation,) = place.glob("d/_mem_wal/*/*gen*/")
    yield "flush", lk.dataset(generation)
    ds.merge_mem_wal()
    yield "merged shards", ds


@pytest.mark.parametrize("option", ["off", "names"])
def test_every_kind_of_commit_says_it(option: str, tmp_path: Path, found: Provenance) -> None:
    told = {"notebook": "cleaning.ipynb", "cell": "12", "user": "ana"} if option == "names" else {}
    with lk.options(provenance=option):
        before = set()
        for name, ds in every_kind(tmp_path):
            assert own(ds, ds.version) == told, name
            assert (ds.uri, ds.branch, ds.version) not in before, name
            before.add((ds.uri, ds.branch, ds.version))


def test_transactions_that_say_different_things_are_one_that_says_neither(
    tmp_path: Path, found: Provenance
) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d", transaction_properties={"mine": "1"})

    def append(said: dict[str, str]) -> lk.Transaction:
        written = lk.LanceOperation.Append(lk.fragment.write_fragments({"x": [7]}, ds))
        return lk.Transaction(1, written, transaction_properties=said)

    one, other = ({PREFIX + name: "other"} for name in ("cell", "script"))
    for said, told in (([one, one], {"cell": "other"}), ([one, other, {"a": "b"}], {})):
        ds = lk.LanceDataset.commit_batch(ds, list(map(append, said)))["dataset"]
        assert own(ds, ds.version) == told


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
    assert "cell text: .source()" in show_text(ds.versions()[0])
    assert "ds.insert" not in show_text(ds.read_transaction(1))
    assert ds.blame()["_changed_from"].to_pylist() == [told]
    kept = pickle.loads(pickle.dumps(ds.versions()[0]))
    assert kept.source() == "ds.insert(rows)"


def test_texts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "é\ud800" * MOST_SOURCE
    monkeypatch.setattr(hooks, "finders", [lambda: Provenance(cell="1", source=text)])
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
    monkeypatch.setattr(hooks, "finders", [lambda: Provenance(cell="1", source=line)])
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
    monkeypatch.setattr(hooks, "finders", [lambda: 1 / 0])
    monkeypatch.setattr(sys, "argv", [])
    with lk.options(provenance="names"):
        ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    assert own(ds, 1).keys() <= {"user"}
