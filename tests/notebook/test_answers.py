"""Calls that return nothing in pylance answer with a card, and with one line."""

from __future__ import annotations

import pickle
import re

import pyarrow as pa
import pytest

import lancekit as lk
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


def test_the_line_follows_what_others_commit(folder):
    ds = lk.write_dataset(rows(1), "late.lance")
    answer = ds.insert(rows(2))
    assert repr(answer).endswith("; ds.undo() takes it back")
    lk.dataset("late.lance").delete("id = 1")
    assert repr(answer).endswith("; ds.checkout_version(1).restore() takes it back")
    assert "also undone" in show_text(answer, NOW)


def test_undo_says_who_built_on_the_state(folder):
    ds = lk.write_dataset(rows(1), "built.lance")
    ds.insert(rows(2))
    ds.create_branch("trial")
    answer = ds.undo()
    assert "kept by branch trial" in repr(answer)
    assert "built on" in show_html(answer, NOW)
    with pytest.warns(UserWarning, match="an undo or restore"):
        assert "kept by" not in repr(ds.undo())


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
