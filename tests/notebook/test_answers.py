"""Calls that return nothing in pylance answer with a card, and with one line."""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.cards import card
from tests.notebook.conftest import NOW, answers, rows
from tests.support.cards import show_html, show_text
from tests.support.faults import Faults, injected

#: what the lines say, and the call that takes the change back
LINES = {
    "insert": "inserted 1 row into 1 fragment, null in name · main:2; ds.undo()",
    "overwrite": "replaced all by 2 rows in 1 fragment · main:3; ds.undo()",
    "add columns": "added 2 columns: twice, <b>thrice</b> · main:4; ds.undo()",
    "merge columns": "added column note · main:5; ds.undo()",
    "drop columns": "dropped column <b>thrice</b> · main:6; ds.undo()",
    "rename": "altered 1 column: note (name remark) · main:7; ds.undo()",
    "alter": "altered 2 columns: twice (type int32), twice (nullable True) · main:8; ds.undo()",
    "tag created": "tag first created on main:1; ds.tags.delete('first')",
    "tag moved": "tag first moved from main:1 to main:8; ds.tags.update('first', 1)",
    "undo": "took back main:8 (change columns): now 2 rows; kept by tag first · main:9",
    "tag deleted": "tag first deleted from main:8; ds.tags.create('first', 8) brings it back",
    "restore": "restored version 2: now 3 rows · main:10; ds.restore(9)",
    "branch deleted": "branch togo deleted",
    "constraint added": "added constraint <i>positive</i> · main:11; ds.constraints.drop(",
    "constraint dropped": "dropped constraint <i>positive</i> · main:12; ds.undo()",
    "indexed": "indexed id (BTree) as id_idx, 3 rows · main:13; ds.drop_index('id_idx')",
    "indexed again": "indexed id (BTree) as id_idx, 3 rows · main:14; ds.undo()",
    "nothing to index": "nothing to do: the indices cover all rows · main:14",
    "indices optimized": "updated 1 index: id_idx · main:16",
    "index dropped": "dropped index id_idx · main:17; ds.undo()",
    "field metadata": "changed field metadata: field 0: unit = m · main:18; ds.undo()",
    "auto cleanup": "changed config: lance.auto_cleanup.interval = 99, lance.auto_cleanup.retain",
    "valid": "no damage in 3 data files: every value was read · main:20",
    "config key": "changed config: removed owner · main:22; ds.undo()",
    "tag metadata": "set metadata of tag second: <i>owner</i>",
    "no branch metadata": "removed all metadata of branch side",
    "logs": "enabled write-ahead logs: 4 shards · main:23; ds.undo()",
    "prewarmed": "loaded 1 segment of index id_idx · main:24",
    "manifests": "renamed 0 manifests · main:24",
    "sent": "inserted 1 row into 1 fragment, null in name · main:2",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
def test_lines():
    found = {name: repr(answer) for name, answer in answers()}
    assert {name: found[name][: len(line)] for name, line in LINES.items()} == LINES
    assert all("\n" not in line for line in found.values())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [name for name, line in LINES.items() if "; ds." in line])
def test_the_way_back_works(name):
    """The line of a call runs right after the call, and there is one version more."""
    answer = next(answer for other, answer in answers() if other == name)
    ds = lk.dataset("answers.lance")
    eval(re.search(r"(ds\.\S+\(.*\)) (takes|brings) it back$", repr(answer))[1], {"ds": ds})
    assert ds.version == answer.version + ("tag" not in name)


def test_shards_and_drops_answer(folder):
    ds = lk.write_dataset(rows(1), "shards.lance", primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    with ds.mem_wal_writer(str(UUID(int=7))) as writer:
        done = [repr(writer.put(rows(2, 3))), repr(writer.delete({"id": [2]}))]
        done.append(repr(writer.close()))
    assert done == [
        f"put 2 rows into shard {UUID(int=7)}",
        f"deleted 1 row from shard {UUID(int=7)}",
        f"closed the writer of shard {UUID(int=7)}: 3 rows flushed",
    ]
    drop = partial(ds.drop, str(Path("shards.lance").absolute()))
    assert re.fullmatch(r"dropped .*/shards.lance with 1 row", repr(drop()))
    assert repr(drop(ignore_not_found=True)).startswith("nothing to drop: there is no dataset at ")


def test_the_card_of_a_dataset_says_what_its_indices_cover(folder):
    ds = lk.write_dataset({"v": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2))}, "v.lance")
    made = ds.create_index("v", "IVF_FLAT", num_partitions=1)
    assert made is ds  # as in pylance, whose users write ds = ds.create_index(...)
    assert re.search(r"indices +v_idx \(v: IVF_FLAT, 4 rows\)", show_text(made, NOW))


def test_the_line_follows_what_others_commit(folder):
    ds = lk.write_dataset(rows(1), "late.lance")
    answer = ds.insert(rows(2))
    assert repr(answer).endswith("; ds.undo() takes it back")
    lk.dataset("late.lance").delete("id = 1")
    assert repr(answer).endswith("; ds.checkout_version(1).restore() takes it back")
    assert "also undone" in show_text(answer, NOW)


def test_the_line_counts_nothing_of_other_writers(folder):
    ds = lk.write_dataset(rows(1), "others.lance")
    late, later = lk.dataset("others.lance"), lk.dataset("others.lance")
    ds.insert(rows(2, 3))
    said = repr(late.insert({"id": [4], "a": [1]}, schema_mode="merge"))
    assert "inserted 1 row into 1 fragment" in said
    assert "added columns a" in said
    assert repr(later.add_columns({"b": "id"})).startswith("added column b ·")


def test_undo_says_who_built_on_the_state(folder):
    ds = lk.write_dataset(rows(1), "built.lance")
    ds.insert(rows(2))
    ds.create_branch("trial")
    answer = ds.undo()
    assert "kept by branch trial" in repr(answer)
    assert "built on" in show_html(answer, NOW)
    with pytest.warns(UserWarning, match="an undo or restore"):
        assert "kept by" not in repr(ds.undo())


def test_the_history_says_what_each_commit_changed(folder):
    ds = lk.write_dataset(rows(*range(100)), "told.lance", primary_key="id")
    ds.update({"name": "'x'"}, where="id < 40")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete("id = 99").execute(rows(*range(10, 50), 200, 201, 202))
    ds.insert(rows(300))
    ds.optimize.compact_files()
    nothing = ds.merge_insert("id").when_matched_update_all().execute(rows(999))
    assert "; note no row changed; " in repr(nothing)
    changes = [row.cells[5] for row in card(ds.versions(), NOW).tables[0].rows]
    wanted = ["no row", "4 files to 1", "±0", "+1", "+3, 40 updated, 1 deleted", "40 updated"]
    assert changes == [*wanted, "+100"]
    diff = next(fact.value for fact in card(ds.versions()[2], NOW).facts if fact.label == "diff")
    counts = eval(diff, {"ds": ds}).counts
    # 10 of the 40 rows had these values before
    assert (counts.inserted, counts.updated, counts.deleted) == (3, 30, 1)
    assert "lancekit.rows" not in show_text(ds.read_transaction(2), NOW)


def test_the_history_of_pylance_says_what_it_rewrote(folder):
    lance = pytest.importorskip("lance")
    made = lance.write_dataset(rows(*range(9)), "theirs.lance")
    made.update({"name": "'x'"}, where="id < 4")
    history = lk.dataset("theirs.lance").versions()
    assert card(history, NOW).tables[0].rows[0].cells[5] == "4 rewritten"


def test_recorded_counts_of_others_are_not_believed_blindly(folder):
    ds = lk.write_dataset(rows(1), "odd.lance")
    for text in ("1 2", "a b c", "-1 0 0", "1" * 30 + " 0 0"):
        ds.insert(rows(2), transaction_properties={"lancekit.rows": text})
        assert card(ds.versions(), NOW).tables[0].rows[0].cells[5] == "+1"


def test_a_merge_by_other_columns_than_the_key_warns(folder):
    ds = lk.write_dataset(
        {"id": [1, 2, 3], "kind": ["a", "a", "b"]}, "wide.lance", primary_key="id"
    )
    one = {"id": [1], "kind": ["b"]}
    ds.merge_insert("kind").when_matched_delete().execute(one)  # one row for one row: no warning
    with pytest.warns(UserWarning, match=r"matches 2 rows by kind, .* primary key \(id\)"):
        ds.merge_insert("kind").when_matched_delete().execute({"id": [1], "kind": ["a"]})
    plain = lk.write_dataset({"id": [1, 1]}, "plain.lance")
    plain.merge_insert("id").when_matched_delete().execute({"id": [1]})  # no key is known


CALLS = {
    "insert": lambda ds: ds.insert(rows(7)),
    "add_columns": lambda ds: ds.add_columns(pa.field("note", pa.string())),
    "undo": lambda ds: ds.undo(),
    "tag": lambda ds: ds.tags.create("other"),
    "untag": lambda ds: ds.tags.delete("five"),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_costs_no_request(ds, call):
    """The last request of a call is its write; the card of its answer makes few."""
    with injected(Faults()) as faults:
        answer = CALLS[call](lk.dataset(ds.uri))
        made = [one.kind for one in faults.calls]
        show_text(answer, NOW)
    assert made[-1] in {"put", "put_hint", "put_if_absent", "delete"}, made
    assert len(faults.calls) - len(made) <= 4


def test_an_answer_can_be_sent_to_another_process(ds):
    answer = ds.insert(rows(7))
    sent = pickle.loads(pickle.dumps(answer))
    assert (sent.call, sent.version, sent.branch) == (answer.call, answer.version, answer.branch)


def test_changes_of_settings_are_dictionaries_with_a_card():
    ds = lk.write_dataset({"x": [1]}, "memory://changed-settings")
    for change in (ds.update_config, ds.update_metadata, ds.update_schema_metadata):
        found = change({"owner": "ada"})
        assert (found, repr(found)) == ({"owner": "ada"}, "{'owner': 'ada'}")
        shown = found._repr_mimebundle_()
        assert "owner = ada" in shown["text/plain"]
        assert "owner = ada" in shown["text/html"]
        assert pickle.loads(pickle.dumps(found)) == found


def test_the_newest_version_is_said():
    ds = lk.write_dataset({"x": [1]}, "memory://moved-to-latest")
    assert repr(ds.checkout_latest()) == "already at the newest version · main:1"
    lk.dataset("memory://moved-to-latest").insert({"x": [2]})
    assert repr(ds.checkout_latest()) == "moved from version 1: now 2 rows · main:2"


def test_a_key_that_is_missing_is_not_called_removed() -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://missing-config-key")
    answer = ds.delete_config_keys(["owner"])  # commits a version, as pylance does
    assert repr(answer).startswith("no value changed: the keys were missing")
    ds.update_config({"owner": "ada"})
    assert "removed owner" in repr(ds.delete_config_keys(["owner", "other"]))
