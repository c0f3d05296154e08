"""What cards say."""

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._display import Displayed
from lancekit._format.operations import OPERATIONS
from lancekit._notebook.cards import card
from lancekit._notebook.cards.common import OPERATIONS as WORDS
from lancekit.errors import (
    CommitConflictError,
    IncompatibleConflictError,
    RetriesExhaustedError,
    RetryableConflictError,
)
from tests.notebook.conftest import NOW, rows
from tests.support.cards import classes_with_cards, show_text
from tests.support.number_texts import ungrouped


def lines(value):
    return ungrouped(show_text(value, NOW)).splitlines()


def fact(value, label):
    made = card(value, NOW)
    folded = [row.cells for one in made.tables if one.caption == "Details" for row in one.rows]
    found = dict(folded) | {f.label: f.value for f in made.facts}
    return ungrouped(found[label])


def test_every_displayed_class_has_a_card():
    kinds = classes_with_cards()
    public = {getattr(lk, name) for name in lk.__all__ if isinstance(getattr(lk, name), type)}
    assert {kind for kind in public if issubclass(kind, Displayed)} <= kinds
    assert all(issubclass(kind, Displayed) for kind in kinds)
    # by name: a class with slots is there twice
    own = {kind.__name__ for kind in Displayed.__subclasses__() if "lancekit" in kind.__module__}
    assert own <= {base.__name__ for kind in kinds for base in kind.__mro__}


def test_a_feed_of_changes(ds):
    feed = ds.changes(1)
    assert lines(feed)[0].startswith("changes main:1 → main:4 · 3 steps")
    assert "has no card" not in repr(feed)
    first = next(line.split() for line in lines(feed) if line.split()[:1] == ["4"])
    assert first[-1] in {"row", "rows"}  # to compare
    feed.to_table()
    newest = next(line.split() for line in lines(feed) if line.split()[:1] == ["4"])
    assert newest[-3:] == ["1", "0", "0"]
    assert lines(ds.changes(4))[0].endswith("0 steps")


def test_indices_and_what_they_lack():
    table = pa.table({"id": range(1000), "city": ["Ulm", "Linz"] * 500})
    ds = lk.write_dataset(table, "memory://card-of-indices", mode="overwrite")
    assert lines(ds.indices) == ['0 indices · ds.create_scalar_index(column, "BTREE")']
    ds.create_scalar_index("id", "BTREE")
    assert lines(ds.indices)[0] == "1 index · all rows covered"
    ds.create_scalar_index("city", "BITMAP")
    ds.insert(table.slice(0, 3))
    first, mend, *rest = lines(ds.indices)
    assert first == "2 indices · 2 out of date"
    assert mend.split() == ["update", "ds.optimize.optimize_indices()"]
    assert "1000 of 1003" in rest[2]
    assert "> 99%" in rest[2]
    assert rest[-1].split()[:6] == ["city_idx,", "id_idx", "3", "1", "4", "append"]
    ds.optimize.optimize_indices(index_names=["id_idx"])
    assert fact(ds.indices, "update").endswith("(index_names=['city_idx'])")


def test_changes_of_two_sides(shown):
    found = shown["conflicts"]
    assert lines(found)[0] == "1 conflicting row · 1 update/update"
    assert fact(found, "theirs") == "side:2"
    assert lines(shown["nothing applied"])[0].startswith("no changes to main:2 · 0 inserted")
    assert lines(shown["applied"])[0].startswith(
        "cherry-picked onto main:3 · 0 inserted · 1 updated"
    )
    assert fact(shown["applied"], "conflicts") == "1"
    assert lines(shown["comparison"])[0] == "side compared with main · 1 ahead · 1 behind"
    plan = shown["branch plan"]
    assert lines(plan)[0].startswith("merge: three-way · 0 to insert")
    assert fact(plan, "conflicts") == "1 update/update"


def test_a_plan_shows_conflicts_of_columns():
    ds = lk.write_dataset({"id": [1], "n": [1]}, "memory://card-columns", primary_key="id")
    exp = ds.create_branch("exp")
    for side, name in ((exp, "a"), (ds, "b")):
        side.alter_columns({"path": "n", "name": name})
    plan = ds.branches.merge("exp", dry_run=True)
    assert lines(plan)[0].endswith("1 conflict")
    said = "n: ours renamed to b, theirs renamed to a"
    assert fact(plan, "column conflicts") == said
    assert fact(plan, "next") == "plan.interactive()"
    settled = plan.resolved(lk.Sides(columns={"n": "theirs"}))
    assert fact(settled.conflicts, "column conflicts") == f"{said} → theirs"


def test_every_operation_has_a_word():
    assert {kind.__name__ for kind in OPERATIONS} == WORDS.keys()


def test_dataset(ds):
    first, *rest = lines(ds)
    assert first.startswith("people.lance · main:4 · 5 rows × 2 columns · ")  # noqa: RUF001
    assert first.endswith(" · written 13 years ago")
    assert fact(ds, "primary key") == "id"
    assert fact(ds, "fragments").startswith("2 fragments in 2 data files")
    assert fact(ds, "reproduce") == "lk.dataset('people.lance', version=4)"
    assert any(line.split() == ["id", "int64", "no", "key", "1"] for line in rest)
    assert any(line.split() == ["name", "string", "yes"] for line in rest)


def test_the_reproduce_line_works(shown):
    for name in ("dataset", "tagged", "branch", "clone"):
        line = fact(shown[name], "reproduce")
        assert eval(line) == shown[name] or eval(line).to_table() == shown[name].to_table()


def test_a_dataset_names_the_tags_of_its_version_and_branch(ds):
    assert " · tag five · " in lines(ds.checkout_version(2))[0]
    ds.tags.create("also", 2)
    ds.tags.create("elsewhere", ("trial/one", 2))
    assert " · tags also, five · " in lines(ds.checkout_version(2))[0]
    assert " · tag elsewhere · " in lines(ds.checkout_version(("trial/one", 2)))[0]


def test_a_branch_and_a_clone_say_where_their_files_are(shown):
    assert lines(shown["branch"])[0].startswith("people.lance · trial/one:3 · ")
    assert fact(shown["branch"], "shared files") == "main"
    assert fact(shown["clone"], "shared files") == "main of people.lance"


def test_the_schema_is_bounded():
    wide = {f"column {i}": [i] for i in range(1000)}
    ds = lk.write_dataset(wide, "memory://wide-card")
    text = show_text(ds, NOW)
    assert "column 19 " in text
    assert "column 20 " not in text
    assert lines(ds)[-1].strip() == "first 20 of 1000; all: ds.schema"
    with lk.options(display_columns=3):
        assert lines(ds)[-1].strip() == "first 3 of 1000; all: ds.schema"


def test_types_are_named_in_short():
    columns = {
        "u": pa.array([b"0" * 16], pa.uuid()),
        "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])),
        "s": pa.array([{"a": [1], "b": [1.5]}]),
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
        "b": lk.blob_array([b"never shown"]),
    }
    text = show_text(lk.write_dataset(pa.table(columns), "memory://types-card"), NOW)
    for words in (
        "arrow.uuid  ",
        "json  ",
        "struct<a: list<int64>, b: list<double>>",
        "map<key: string, value: int8>",
        "blob  ",
    ):
        assert words in text
    assert "never shown" not in text


def test_history(ds):
    first, _, head, *table = lines(ds.versions())
    assert first == "4 versions · main:1 to main:4"
    assert head.split() == [
        "version",
        "committed",
        "age",
        "operation",
        "rows",
        "change",
        "message",
        "tags",
    ]
    cells = [line.split(" ago ")[1].split("  ") for line in table]
    assert [[cell.strip() for cell in row if cell.strip()] for row in cells] == [
        ["update", "5", "+1, 1 updated"],
        ["delete", "4", "−1"],  # noqa: RUF001
        ["append", "5", "+2", "two more", "five"],
        ["create", "3", "+3", "the first three"],
    ]


def test_the_commit_that_made_a_table_has_one_name(ds):
    """In the list of versions, its transaction, and the histories of rows and columns."""
    for found in (ds.versions(), ds.row_history({"id": 1}), ds.column_history("name")):
        assert " create  " in lines(found)[-1], found
        assert " overwrite " not in repr(found)
    assert lines(ds.read_transaction(1))[0].startswith("create ")
    swept = ds.bisect(lambda version: version.version == 2, good=1, all=True)
    assert [flip.operation for flip in swept.flips] == ["Append", "Delete"]
    assert [line.split()[4] for line in lines(swept)[-2:]] == ["append", "delete"]


def test_a_branch_starts_with_no_change(ds):
    history = ds.checkout_version(("trial/one", None)).versions()
    assert history.row_change(history[0]) == 0
    assert " clone " in lines(history)[-1]


def test_history_is_shown_page_by_page(ds):
    for i in range(10, 60):
        ds.insert(rows(i))
    history = ds.versions()
    numbers = []
    for page in range(3):
        text = lines(history)
        assert text[0].endswith("54 versions · main:1 to main:54")
        shown = [line for line in text if " ago " in line]
        assert len(shown) == (20, 20, 14)[page]
        numbers += [int(line.split()[0]) for line in shown]
        if page < 2:
            note = text[-1].strip()
            assert note.startswith(("34 older: ", "14 older: "))
            history = eval(note.partition(": ")[2])
    assert numbers == list(range(54, 0, -1))
    assert " older: " not in lines(history)[-1]


def test_a_slice_of_a_history_is_one(ds):
    history = ds.versions()
    assert lines(history[1:3])[0] == "2 of 4 versions · main:1 to main:4"
    assert [v.version for v in history[::-1]] == [4, 3, 2, 1]
    assert history[1:3] == [history[1], history[2]]
    assert history[1:3].whole == history
    assert len(history[:0]) == 0
    assert history[2:].row_change(history[2]) == -1


def test_a_version_whose_forerunner_is_gone(ds, tmp_path):
    history = ds.versions()
    for number in (1, 2):
        manifest = tmp_path / "people.lance" / "_versions" / f"{2**64 - 1 - number}.manifest"
        manifest.unlink()
    history = ds.versions()
    assert lines(history)[0] == "2 versions · main:3 to main:4"
    assert history.row_change(history[0]) is None
    assert "unknown" in lines(history)[-1]


def test_version(shown):
    version = shown["dataset"].get_version()
    assert lines(version)[0].startswith("main:5 · update · 6 rows · ")
    assert fact(version, "restore") == "ds.checkout_version(5).restore()"
    other = shown["branch version"]
    assert fact(other, "open") == "ds.checkout_version(('trial/one', 2))"


def test_tags_and_branches(ds):
    ds.tags.create("later", 4)
    text = lines(ds.tags)
    assert text[0] == "2 tags"
    assert [line.split()[:2] for line in text[3:]] == [["later", "main:4"], ["five", "main:2"]]
    assert ds.tags.names() == ("five", "later")
    text = lines(ds.branches)
    assert text[0] == "1 branch"
    assert text[3].split()[:2] == ["trial/one", "main:2"]
    assert text[3].endswith("ds.branches['trial/one']")
    assert ds.branches.names() == ("trial/one",)


def test_many_tags_are_counted_and_not_read(ds, tmp_path):
    folder = tmp_path / "people.lance" / "_refs" / "tags"
    for i in range(300):
        (folder / f"t{i:03}.json").write_text("this would be an error")
    assert lines(ds.tags)[0] == "301 tags"
    assert lines(ds.tags)[-1].strip() == "first 10 of 301; all: ds.tags.list()"
    assert fact(ds, "tags") == "too many to read for a card"
    assert fact(ds.versions(), "tags") == "too many to read for a card"


def test_merge_result(ds):
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    result = merge.execute(rows(1, 7, 8))
    first = lines(result)[0]
    assert first.startswith("merged into main:5 · 2 inserted · 1 updated · 0 deleted · ")
    assert fact(result, "key filter").startswith("Bloom: concurrent inserts of these keys")
    assert fact(result, "undo") == "ds.undo()"
    assert fact(result, "engine") == "this process"
    assert dict(result) == {
        "num_inserted_rows": 2,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
    }
    nothing = ds.merge_insert("name").when_matched_delete().execute(rows(7))
    assert "key filter" not in show_text(nothing, NOW)
    nothing = merge.execute(rows(1, 2))
    assert "key filter" not in show_text(nothing, NOW)
    assert "key filter" not in show_text(merge.preview(rows(1, 2)), NOW)
    plain = lk.write_dataset(rows(1), "without key.lance").merge_insert("id")
    other = plain.when_not_matched_insert_all().execute(rows(70))
    assert fact(other, "key filter") == "none: the merge key is not the primary key"


def test_the_undo_line_works(ds):
    before = ds.to_table()
    deleted = ds.delete("id > 1")
    exec(fact(deleted, "undo"), {"ds": ds})
    assert ds.to_table() == before
    exec(fact(deleted, "undo"), {"ds": ds})  # now it names the version
    ds.checkout_latest()
    assert ds.to_table() == before


def test_the_undo_line_says_what_others_lose(ds):
    deleted = ds.delete("id = 1")
    assert "also undone" not in show_text(deleted, NOW)
    ds.insert(rows(20), commit_message="a \u202e message")
    other = lk.dataset("people.lance")
    other.optimize.compact_files()
    theirs = other.update({"name": "'x'"}, where="id = 20")
    newer = fact(deleted, "also undone")
    assert newer.startswith("4 newer versions: 6 (append by lancekit ")
    assert "a \\u202e message), 7 (" in newer
    assert ", 9 (update by lancekit " in newer
    assert fact(deleted, "undo") == "ds.checkout_version(4).restore()"
    assert "also undone" not in show_text(theirs, NOW)
    for result in (deleted, theirs):
        copy = pickle.loads(pickle.dumps(result))
        assert fact(copy, "also undone") == "all later commits"
    for i in range(30, 40):
        other.insert(rows(i))
    assert fact(deleted, "also undone").endswith("), and 9 more")
    ds.checkout_latest()
    ds.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert fact(deleted, "undo") == "not possible: version 4 was cleaned up"


@pytest.mark.parametrize(
    "name",
    [
        "two\nlines",
        "tab\tbed",
        "evil\u202eecnal",
        "quo'te\"s",
        "back\\slash",
        "\x1b[31m",
        "blank\u3164\u200b",
        "~",
        "s3:/bucket",
        "a b%20c#d?e",
        "x" * 250,
        "deep/" * 150 + "e",
    ],
)
def test_the_reproduce_line_finds_any_place_from_anywhere(tmp_path, monkeypatch, name):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    lk.write_dataset(rows(1, 2), "./sent")  # no dataset is made at some of these places
    made = lk.dataset(f"./{Path('sent').rename(f'./{name}')}")
    branch = made.create_branch("trial", 1)
    branch.insert(rows(3))
    for folder in (here, there, tmp_path):
        monkeypatch.chdir(folder)
        for ds in (made, branch):
            line = fact(ds, "reproduce")
            assert line.isprintable()
            assert line in ungrouped(show_text(ds, NOW))
            assert eval(line).to_table() == ds.to_table()


def test_the_reproduce_line_is_relative_only_where_the_input_was(tmp_path, monkeypatch):
    here = tmp_path / "a b"
    here.mkdir()
    monkeypatch.chdir(here)
    lk.write_dataset(rows(1, 2), "d.lance")
    absolute = str(here / "d.lance")
    given = [absolute, here / "d.lance", (here / "d.lance").as_uri(), "d.lance", "../a b/d.lance"]
    for place in given:
        ds = lk.dataset(place)
        for handle in (ds, ds.checkout_version(1), pickle.loads(pickle.dumps(ds))):
            shown = "d.lance" if place in given[3:] else absolute
            assert fact(handle, "reproduce") == f"lk.dataset({shown!r}, version=1)"
    opened = [lk.dataset(place) for place in given]
    for folder in (tmp_path, "/"):
        monkeypatch.chdir(folder)
        for ds in opened:
            assert eval(fact(ds, "reproduce")).count_rows() == 2


def test_delete_result(shown):
    assert lines(shown["delete"])[0].startswith("deleted 2 rows · trial/one:3 · ")
    assert fact(shown["delete"], "undo") == "ds.undo()"


def test_conflict(shown):
    error = shown["conflict"]
    assert (
        lines(error)[0] == "your append conflicts with the overwrite of main:2 · cannot be retried"
    )
    assert fact(error, "reason") == "All rows and the schema were replaced"
    assert fact(error, "writer").startswith("lancekit ")
    assert fact(error, "message") == "all <b>new</b>"
    assert fact(error, "committed").endswith("ago)")
    assert fact(error, "read version") == "main:1"
    handle = lk.dataset("clash.lance")
    exec(fact(error, "next"), {"ds": handle})
    assert handle.version == 2
    assert fact(error, "next").endswith("read_transaction(2)")  # what landed, shown in a cell
    assert "<b>new</b>" not in error._repr_html_()
    assert len(repr(error).splitlines()) == 1


def test_a_conflict_says_where():
    evidence = {
        "fragments": (3,),
        "rows": ((3 << 32) + 7, (3 << 32) + 8),
        "columns": ("id",),
        "keys": (255,),
        "config_keys": ("a", "b"),
        "generations": (("0000", 4),),
    }
    error = RetryableConflictError(
        "no", mine="Delete", theirs="Update", version=4, evidence=evidence, code="ds.x()"
    )
    assert lines(error)[0].startswith("your delete conflicts with the update of main:4 · can be ")
    assert fact(error, "rows") == "7 of fragment 3, 8 of fragment 3"
    assert fact(error, "keys") == "possibly in both commits: hashes 00000000000000ff"
    assert fact(error, "config") == "a, b"
    assert fact(error, "generations") == "0000: 4"
    copy = pickle.loads(pickle.dumps(error))
    assert lines(copy) == lines(error)


def test_the_last_conflict_shows_when_all_attempts_met_one(ds):
    late = lk.dataset("people.lance")
    merge = late.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    again = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    again.execute(rows(*range(100, 170)))
    with pytest.raises(RetriesExhaustedError) as caught:
        merge.conflict_retries(0).execute(rows(*range(160, 230)))
    assert lines(caught.value)[0].endswith("the update of main:5 · failed after 1 attempt")
    assert fact(caught.value, "reason") == "Both inserted 10 of the same keys of 'id'"
    assert fact(caught.value, "columns") == "id"
    assert fact(caught.value, "next") == "ds.checkout_latest()"


def test_a_conflict_is_told_in_the_words_of_the_user(tmp_path):
    def conflict(change, other):
        table = pa.table({"id": range(6), "v": range(6)})
        ds = lk.write_dataset(table, tmp_path / "d", mode="overwrite", max_rows_per_file=3)
        stale = lk.dataset(tmp_path / "d")
        other(ds)
        with pytest.raises(CommitConflictError) as caught:
            change(stale)
        return caught.value

    one = pa.table({"id": [1], "v": [9]})
    compacted = conflict(
        lambda ds: ds.optimize.compact_files(),
        lambda ds: ds.insert(one, mode="overwrite"),
    )
    assert lines(compacted)[0].startswith("your compaction conflicts with the overwrite of ")
    assert str(compacted).startswith("This compaction, based on")
    merged = conflict(
        lambda ds: ds.merge_insert("id").when_matched_update_all().conflict_retries(0).execute(one),
        lambda ds: ds.update({"v": "0"}, where="id = 1"),
    )
    assert lines(merged)[0].startswith("your merge-insert conflicts with the update of ")
    dropped = conflict(lambda ds: ds.add_columns({"n": "id"}), lambda ds: ds.drop_columns(["v"]))
    assert fact(dropped, "columns") == "v"
    assert fact(dropped, "reason") == "Columns were dropped, renamed or changed: 'v'"


@pytest.mark.parametrize(
    "call", [lambda ds: ds.delete("id > 1"), lambda ds: ds.update({"id": "1"})]
)
def test_a_stale_change_of_a_dataset_made_anew_says_so(tmp_path, call):
    lk.write_dataset({"id": [1, 2]}, tmp_path / "d")
    stale = lk.dataset(tmp_path / "d")
    shutil.rmtree(tmp_path / "d")
    lk.write_dataset({"id": [1, 2]}, tmp_path / "d")
    with pytest.raises(IncompatibleConflictError, match="was replaced by another dataset"):
        call(stale)


def test_a_conflict_without_facts_shows_its_sentence():
    error = IncompatibleConflictError("it was replaced by another one", hint="Open it again.")
    assert lines(error)[0] == "another writer committed first · cannot be retried"
    assert fact(error, "reason") == "It was replaced by another one"
    assert fact(error, "next") == "Open it again."


def test_session(shown):
    assert lines(shown["no session"])[0] == "no session"
    assert lines(shown["session"])[0] == "Spark 4.3.0 · active · local[2,4] · started by lancekit"
    assert fact(shown["session"], "Java") == "17.0.2 at /usr/lib/java"
    assert "spark.sql.session.timeZone" in show_text(shown["session"], NOW)
    assert "Spark Connect" in lines(shown["connect"])[0]


def test_objects_show_their_cards(shown):
    for value in shown.values():
        assert "could not be drawn" not in repr(value)
        assert "could not be drawn" not in show_text(value, NOW)
        assert value._repr_html_().startswith("<div")
        assert type(value._repr_html_()) is str  # marimo sends no other kind of text


def test_a_fault_is_named_and_does_not_raise(ds, tmp_path):
    (tmp_path / "people.lance" / "_refs" / "tags" / "bad.json").write_text("{")
    text = repr(ds)
    assert text.startswith("LanceDataset('people.lance', main:4)\n(its card could not be drawn: ")
    assert "bad.json" in text
    assert ds._repr_html_() is None
    assert ds._repr_mimebundle_() == {"text/plain": text}


@pytest.mark.parametrize("kind", ["tags", "branches"])
def test_names_that_cannot_be_read_do_not_raise(ds, tmp_path, kind):
    folder = tmp_path / "people.lance" / "_refs" / kind
    shutil.rmtree(folder)
    folder.symlink_to(folder)
    plain = f"{kind.title()}('{tmp_path}/people.lance')"
    assert repr(getattr(ds, kind)).startswith(f"{plain}\n(its card could not be drawn: ")


def test_a_version_that_is_gone_does_not_raise(ds, tmp_path):
    version = ds.versions()[0]
    shutil.rmtree(tmp_path / "people.lance" / "_versions")
    assert repr(version).startswith("main:1\n(its card could not be drawn: ")


def test_a_conflict_is_one_line_of_text_and_a_card_of_html(shown):
    error = shown["conflict"]
    bundle = error._repr_mimebundle_()
    assert bundle == {"text/plain": repr(error), "text/html": error._repr_html_()}
    assert "\n" not in bundle["text/plain"]


def test_results_can_be_pickled(shown):
    for name in ("merge", "delete"):
        assert dict(pickle.loads(pickle.dumps(shown[name]))) == dict(shown[name])


def test_an_object_without_a_card_is_refused():
    with pytest.raises(TypeError, match="int has no card"):
        card(3, NOW)


def test_a_transaction(ds):
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(1, 7))
    made = ds.read_transaction(ds.version)
    assert lines(made)[0] == "update · read version 4"
    assert fact(made, "changed") == "1 fragment"
    assert fact(made, "added") == "1 fragment, 2 rows"
    assert fact(made, "key filter") == "Bloom"
    assert fact(made, "uuid") == made.uuid
    first = ds.read_transaction(1)
    assert lines(first)[0] == "create · read version 0"
    assert fact(first, "message") == "the first three"
    assert fact(first, "schema") == "2 columns: id, name"


def _fragment(**changes):
    return lk.FragmentMetadata(id=3, files=(), physical_rows=5, **changes)


@pytest.mark.parametrize(
    ("operation", "label", "said"),
    [
        (lk.LanceOperation.Restore(2), "restored", "version 2"),
        (lk.LanceOperation.ReserveFragments(3), "reserved", "3 fragment ids"),
        (
            lk.LanceOperation.Delete([], [1, 2], "x > 1"),
            "removed",
            "fragments 1, 2",
        ),
        (lk.LanceOperation.Delete([_fragment()], [], "x > 1"), "where", "x > 1"),
        (
            lk.LanceOperation.Rewrite(
                [lk.LanceOperation.RewriteGroup([_fragment(), _fragment()], [_fragment()])], []
            ),
            "compacted",
            "2 fragments into 1",
        ),
        (
            lk.LanceOperation.UpdateConfig(lk.LanceOperation.UpdateMap({"a": "1", "b": None})),
            "config",
            "a = 1; removed b",
        ),
        (
            lk.LanceOperation.UpdateConfig(
                table_metadata_updates=lk.LanceOperation.UpdateMap({"a": "1"}, True)
            ),
            "table metadata",
            "replaced by a = 1",
        ),
        (
            lk.LanceOperation.Clone(True, None, 4, "s3://key:secret@bucket/x", "trial"),
            "source",
            "s3://***@bucket/x",
        ),
    ],
)
def test_what_an_operation_holds(operation, label, said):
    assert fact(lk.Transaction(1, operation), label) == said


def test_a_delta(ds):
    delta = ds.delta(compared_against=1)
    shown = lines(delta)
    assert shown[0] == "delta main:1 → main:4 · 3 commits"
    assert [line.split()[:2] for line in shown[-3:]] == [
        ["4", "update"],
        ["3", "delete"],
        ["2", "append"],
    ]
    assert "two more" in shown[-1]


def test_a_delta_after_a_cleanup(tmp_path):
    ds = lk.write_dataset({"x": [1]}, tmp_path / "t")
    for value in range(3):
        ds.insert({"x": [value]})
    ds.cleanup_old_versions(versions=[2])
    delta = ds.delta(compared_against=1)
    assert (delta.missing, [number for number, _ in delta.commits()]) == ([2], [3, 4])
    assert lines(delta)[0] == "delta main:1 → main:4 · 3 commits"
    assert fact(delta, "cleaned up") == "2"
    with pytest.raises(lk.errors.VersionNotFoundError, match="Version 2 of "):
        delta.list_transactions()


def test_cache(shown):
    first, *rest = lines(shown["cache"])
    assert first == "5.0 MiB of 1.0 GiB · 1200 entries · 31 hits"
    assert any(line.split()[0] == "files" and line.split()[-2:] == ["31", "1"] for line in rest)
    assert fact(shown["cache"], "clear") == "lk.clear_cache()"
    assert lines(shown["no cache"]) == ["off"]


def test_a_row_history_shows_every_change(tmp_path):
    """A row that was born with many columns hid all that became of it since."""
    rows = {f"c{n}": [n] for n in range(20)}
    ds = lk.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    for value in (100, 200, 300):
        ds.update({"c0": f"{value}"})
    card = str(ds.row_history("c1 = 1"))
    for said in ("4 changes", "inserted", "100", "200", "300", "18 more columns; all: .cells"):
        assert said in card


def test_a_dataset_names_rows_that_wait_in_its_shards(tmp_path):
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    ds.mem_wal_upsert({"id": [2, 3]})
    call = "ds.merge_mem_wal(flush=True)"
    assert fact(ds, "unmerged rows") == f"2 rows of 1 shard, 2 in logs; {call} merges them"
    assert "unmerged" not in str(ds.at(1))  # rows of shards are in no version
    eval(call, {"ds": ds})
    assert "unmerged" not in str(ds)
    assert len(ds) == 3
