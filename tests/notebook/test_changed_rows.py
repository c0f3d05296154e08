"""Cards of diffs, plans and comparisons show rows: within limits, without blobs, without errors."""

from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._api import glance
from lancekit.progress import Stopped
from tests.notebook.conftest import NOW
from tests.support.cards import show_html, show_text


def lines(value):
    return show_text(value, NOW).splitlines()


def table(value):
    """Return the cells of the text lines of a table, split at two blanks."""
    found = [line.split() for line in lines(value)]
    captions = (["Changed"], ["Conflicts"], ["Added"])
    start = next(at for at, words in enumerate(found) if words[:1] in captions)
    return found[start + 1 :]


@pytest.fixture
def ds():
    made = lk.write_dataset(
        {"id": list(range(100)), "v": [0.5] * 100, "name": ["<b>"] * 100},
        f"memory://changed-rows-{uuid4()}",
        primary_key="id",
    )
    made.update({"v": "v + id"}, where="id in (1, 2)")
    made.delete("id >= 95")
    made.insert({"id": [200], "v": [7.5], "name": ["new"]})
    return made


def test_a_diff_shows_rows_of_each_kind(ds):
    diff = ds.diff(1)
    assert not diff.is_compared
    head, *_ = lines(diff)
    assert "1 inserted · 5 deleted · 2 updated · 93 unchanged" in head
    assert diff.is_compared
    assert table(diff) == [
        ["id", "change", "v", "name"],
        ["1", "update", "0.5", "→", "1.5"],
        ["2", "update", "0.5", "→", "2.5"],
        ["200", "insert", "7.5", "new"],
        *([str(at), "delete", "0.5", "<b>"] for at in range(95, 100)),
        ["8", "of", "8", "rows;", "all:", "d.to_table()"],
    ]
    html = show_html(diff, NOW)
    assert "&lt;b&gt;" in html
    assert html.count('class="marked"') == 2


def test_places_are_shared_among_kinds(ds):
    with lk.options(display_rows=5):
        kinds = [row[1] for row in table(ds.diff(1))[1:-1]]
    assert kinds == ["update", "update", "insert", "delete", "delete"]


def test_an_added_column_hides_no_change(ds):
    ds.add_columns({"late": "v > 1"})
    diff = ds.diff(1)
    head, *rest = lines(diff)
    assert "1 inserted · 5 deleted · 95 updated (93 only in added columns)" in head
    assert "  added cells    late 95" in rest
    rows = table(diff)
    assert [row[1] for row in rows[1:9]] == ["update"] * 2 + ["insert"] + ["delete"] * 5
    assert "Added columns of updated rows" in "\n".join(rest)
    assert rows[11] == ["id", "change", "late"]
    only = table(ds.diff(ds.version - 1))
    assert only[:2] == [["id", "change", "late"], ["0", "update", "null", "→", "False"]]


def test_a_diff_of_much_stops_and_compute_goes_on(monkeypatch):
    monkeypatch.setattr(glance, "_NEAR", (1000, 1.0))
    big = lk.write_dataset(
        {"id": np.arange(9999), "v": np.random.default_rng(0).random(9999)},
        "memory://much",
        primary_key="id",
        mode="overwrite",
    )
    big.update({"v": "v + 1"})
    diff = big.diff(big.version - 1)
    head, *rest = lines(diff)
    assert head.endswith(" · not compared yet")
    assert "19,998 rows to compare · about" in head
    assert any("a card reads at most 1 MiB" in line for line in rest)
    assert any("d.compute()" in line for line in rest)
    assert not diff.is_compared
    assert diff.compute() is diff
    assert "9,999 updated" in lines(diff)[0]


def test_the_clock_stops_a_comparison(ds, monkeypatch):
    monkeypatch.setattr(glance, "_NEAR", (1 << 30, 0.0))
    monkeypatch.setattr(glance, "_PATIENCE", 0.0)
    diff = ds.diff(1)
    assert any("stopped after 0 s" in line for line in lines(diff))
    assert not diff.is_compared
    assert diff.counts.updated == 2  # the limit is the card's alone
    assert "not read: stopped" in "\n".join(lines(diff))


def test_a_time_limit_is_a_stop():
    from lancekit.progress import step, stoppable

    with pytest.raises(Stopped):
        stoppable(0.0).within(step)
    stoppable(60.0).within(step)
    step()


def test_reading_can_be_turned_off(ds):
    diff = ds.diff(1)
    with lk.options(display_reads=False):
        assert "  reason      options.display_reads is off" in lines(diff)
    assert not diff.is_compared


def test_a_repr_never_raises_and_says_why(tmp_path):
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "gone.lance", primary_key="id")
    ds.update({"id": "id + 1"})
    for path in (tmp_path / "gone.lance" / "data").iterdir():
        path.unlink()
    text = repr(ds.diff(1))
    assert "not compared yet" in text
    assert "reason" in text
    assert "could not be drawn" not in text


def test_an_interrupt_is_raised(ds, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(glance, "some_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repr(ds.diff(1))


def test_a_comparison_never_starts_spark(ds):
    with lk.options(engine="spark"):
        assert "2 updated" in lines(ds.diff(1))[0]


def test_blobs_are_shown_by_size():
    field = pa.field("photo", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), field, pa.field("v", pa.int64())])

    def rows(*sizes):
        return pa.table(
            [list(range(len(sizes))), [b"x" * size for size in sizes], list(sizes)], schema=schema
        )

    ds = lk.write_dataset(rows(2048, 4096), "memory://blobs", primary_key="id", mode="overwrite")
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        rows(2048, 8192, 1 << 20)
    )
    diff = ds.diff(ds.version - 1)
    text = show_text(diff, NOW)
    assert not diff.is_compared
    assert "not compared   photo" in text
    assert "4.0 KiB → 8.0 KiB" in text
    assert "1.0 MiB" in text
    assert "not compared" not in show_text(diff.compute(), NOW)


def test_large_values_are_not_read():
    random = np.random.default_rng(0)

    def rows(*sizes):
        return {"id": list(range(len(sizes))), "raw": [random.bytes(n << 10) for n in sizes]}

    ds = lk.write_dataset(rows(99, 98, 97), "memory://raw", primary_key="id", mode="overwrite")
    ds.delete("id = 1")
    text = show_text(ds.diff(ds.version - 1), NOW)
    assert "not compared  raw" in text
    assert "1 of 1 row" in text


def test_a_diff_of_many_columns_shows_the_changed_ones():
    names = [f"c{at}" for at in range(60)]
    rows = {"id": [1, 2], **{name: [0, 0] for name in names}}
    ds = lk.write_dataset(rows, "memory://wide-diff", primary_key="id", mode="overwrite")
    ds.update({"c55": "1"}, where="id = 1")
    ds.delete("id = 2")
    rows = table(ds.diff(ds.version - 2))
    assert len(rows[0]) == 22
    assert "c55" in rows[0]
    assert "40 other columns; all: d.to_table()" in " ".join(rows[-1])


# ---- conflicts


@pytest.fixture
def forked():
    made = lk.write_dataset(
        {"id": [1, 2, 3], "v": [1, 2, 3], "w": list("abc")},
        f"memory://forked-rows-{uuid4()}",
        primary_key="id",
    )
    trial = made.create_branch("trial")
    trial.update({"v": "10"}, where="id = 1")
    trial.delete("id = 2")
    trial.insert({"id": [9], "v": [9], "w": ["q"]})
    made.update({"v": "11", "w": "'z'"}, where="id = 1")
    made.update({"v": "22"}, where="id = 2")
    made.insert({"id": [9], "v": [99], "w": ["q"]})
    return made


CONFLICTS = [
    ["1", "update/update", "v", "1", "11", "10"],
    ["2", "update/delete", "v", "2", "22", "deleted"],
    ["9", "insert/insert", "v", "99", "9"],
]


def test_plans_comparisons_and_conflicts_show_conflicts(forked):
    plan = forked.branches.merge("trial", dry_run=True)
    compared = forked.branches.compare("trial")
    for value, call in (
        (plan, "plan.conflicts.to_table()"),
        (plan.conflicts, "conflicts.to_table()"),
        (compared, "found.conflicts.to_table()"),
    ):
        head, *rows = table(value)
        assert head[:3] == ["id", "ours/theirs", "column"]
        assert rows[:-1] == CONFLICTS
        assert " ".join(rows[-1]) == f"3 of 3 conflicting rows; all: {call}"
    assert "found = ds.branches.compare('trial'); found.theirs_diff" in show_text(compared, NOW)


def test_a_comparison_names_columns_in_conflict(forked):
    forked.insert({"id": [50], "new": [1]}, schema_mode="merge")
    forked.branches["trial"].insert({"id": [51], "new": ["text"]}, schema_mode="merge")
    said = "  column conflicts  new: ours added as int64, theirs added as string"
    assert said in lines(forked.branches.compare("trial"))


def test_a_comparison_stops_at_the_limit(forked, monkeypatch):
    monkeypatch.setattr(glance, "_NEAR", (0, 1.0))
    compared = forked.branches.compare("trial")
    assert any("conflicts   not searched yet: about 1 MiB" in line for line in lines(compared))
    assert not compared.is_compared


def test_conflicts_that_cannot_be_read_say_why(forked):
    plan = forked.branches.merge("trial", dry_run=True)
    with lk.options(display_reads=False):
        assert "not read: options.display_reads is off" in show_text(plan, NOW)


def test_whole_numbers_stay_whole_in_pandas(forked):
    pytest.importorskip("pandas")
    frame = forked.branches.merge("trial", dry_run=True).conflicts.to_pandas()
    assert [repr(side) for side in frame["ours"].to_list()][-1] == "{'id': 9, 'v': 99, 'w': 'q'}"
    assert all(isinstance(side["v"], int) for side in frame["theirs"] if side is not None)
