"""Every storage call of every operation fails once, in turn, in each way that it can."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._format.names import ManifestNaming, manifest_name
from tests.support.crash_points import Change, Place, State, rows, state_of
from tests.support.faults import MODES, Crash, Faults, Mode
from tests.support.raw_changes import RAW


def upsert(ds: lk.LanceDataset) -> None:
    merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(4, 50, v="merged"))


def get_ahead(ds: lk.LanceDataset) -> None:
    branch = ds.create_branch("ahead")
    branch.delete("k = 1")
    upsert(branch)


def old_names(ds: lk.LanceDataset, at: Place) -> None:
    """Give the manifests of main the names that old releases gave them."""
    for version in ds.versions():
        new = manifest_name(version["version"], ManifestNaming.V2)
        old = manifest_name(version["version"], ManifestNaming.V1)
        (at.path / "_versions" / new).rename(at.path / "_versions" / old)


CHANGES: dict[str, Change] = {
    "create": Change(lambda ds, at: lk.write_dataset(rows(1), at.path), exists=False),
    "append": Change(lambda ds, at: ds.insert(rows(50))),
    "overwrite": Change(lambda ds, at: ds.insert(rows(50), mode="overwrite")),
    "delete rows": Change(lambda ds, at: ds.delete("k in (1, 5)")),
    "delete a fragment": Change(lambda ds, at: ds.delete("k < 5")),
    "merge": Change(lambda ds, at: upsert(ds)),
    "merge a branch": Change(lambda ds, at: ds.branches.merge("b")),
    "merge a branch with a column": Change(
        lambda ds, at: ds.branches.merge("b"),
        prepare=lambda ds, at: ds.checkout_version(("b", None)).add_columns({"w": "k * 2"}),
    ),
    "fast-forward a branch": Change(
        lambda ds, at: ds.branches.merge("ahead"), prepare=lambda ds, at: get_ahead(ds)
    ),
    "rebase a branch": Change(lambda ds, at: ds.branches.rebase("b")),
    "revert": Change(lambda ds, at: ds.revert(2)),
    "restore": Change(lambda ds, at: ds.checkout_version(1).restore()),
    "create a tag": Change(lambda ds, at: ds.tags.create("new", 2)),
    "move a tag": Change(lambda ds, at: ds.tags.update("t", 2)),
    "describe a tag": Change(lambda ds, at: ds.tags.replace_metadata("t", {"a": "b"})),
    "delete a tag": Change(lambda ds, at: ds.tags.delete("t")),
    "create a branch": Change(lambda ds, at: ds.create_branch("new/branch", 2)),
    "branch off a branch": Change(lambda ds, at: ds.create_branch("of-b", ("b", 3))),
    "delete a branch": Change(lambda ds, at: ds.branches.delete("to/delete")),
    "append to a branch": Change(
        lambda ds, at: ds.checkout_version(("b", None)).insert(rows(50)),
    ),
    "update": Change(lambda ds, at: ds.update({"v": "'new'"}, where="k > 4")),
    "truncate": Change(lambda ds, at: ds.truncate_table()),
    "compact": Change(
        lambda ds, at: ds.optimize.compact_files(target_rows_per_fragment=100), commits=2
    ),
    "add a column": Change(lambda ds, at: ds.add_columns({"w": "k * 2"})),
    "alter a column": Change(lambda ds, at: ds.alter_columns({"path": "v", "name": "w"})),
    "cast a column": Change(
        lambda ds, at: ds.alter_columns({"path": "v", "data_type": pa.large_string()})
    ),
    "drop a column": Change(lambda ds, at: ds.drop_columns(["v"])),
    "configure": Change(lambda ds, at: ds.update_config({"a": "b"})),
    "commit by hand": Change(
        lambda ds, at: lk.LanceDataset.commit(
            str(at.path), lk.LanceOperation.Restore(1), read_version=3
        )
    ),
    "replace metadata": Change(lambda ds, at: ds.update_metadata({"a": "b"}, replace=True)),
    "add a base": Change(
        lambda ds, at: ds.add_bases([lk.DatasetBasePath(str(at.folder / "base"), "base")])
    ),
    "clean up": Change(
        lambda ds, at: ds.cleanup_old_versions(
            timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    ),
    "migrate names": Change(
        lambda ds, at: ds.migrate_manifest_paths_v2(), prepare=old_names, half_opens=False
    ),
    "clone": Change(lambda ds, at: ds.shallow_clone(at.clone, 2)),
    **RAW,
}


#: kinds of calls that most changes make; the others are in few
OFTEN = (
    *("list_names", "put", "put_if_absent", "put_hint", "tail", "read"),
    *("sink.write", "sink.close", "create", "open", "reader.read", "reader.size"),
)


def points(place: Place, name: str, whole: bool) -> Iterator[Faults]:
    """Every call in every mode.

    In short runs one call of each kind in one mode, another call and mode for each change; of the
    kinds that most changes make every sixth one, and of an operation made by hand, which commits as
    the others do, every twelfth.
    """
    record = Faults()
    place.attempt(CHANGES[name], record)
    if whole:
        yield from (Faults(call.number, mode) for call in record.calls for mode in MODES[call.kind])
        return
    kinds: dict[str, list[int]] = {}
    for call in record.calls:
        kinds.setdefault(call.kind, []).append(call.number)
    turn = list(CHANGES).index(name)
    step = 12 if name in RAW else 6
    for kind, numbers in kinds.items():
        number, modes = numbers[turn % len(numbers)], MODES[kind]
        if kind not in OFTEN or (OFTEN.index(kind) + turn) % step == 0:
            yield Faults(number, modes[(turn // 2 + turn // 3) % len(modes)])


@pytest.mark.torture
@pytest.mark.parametrize("name", CHANGES)
def test_every_call_fails_in_turn(tmp_path, name: str, whole: bool) -> None:
    change, place = CHANGES[name], Place(tmp_path)
    with lk.options(fsync=False):
        place.prepare(change)
        allowed = place.states(change)
        assert len(allowed) == change.commits + 1
        for faults in points(place, name, whole):
            try:
                check_point(place, change, faults, allowed)
            except BaseException as error:
                error.add_note(f"{name}: {faults.mode} at {faults.calls[faults.fail_at - 1]}")
                raise


def check_point(place: Place, change: Change, faults: Faults, allowed: list[State]) -> None:
    done = died = False
    try:
        place.attempt(change, faults)
        done = True
    except Crash:
        died = True
    except (errors.StorageError, errors.CommitUnknownError):
        pass
    assert died == (faults.mode in {Mode.TORN, Mode.CRASH}), "the crash was caught"
    state = state_of(lk, place)
    assert state in allowed
    assert not (change.half_opens or done) or state_of(lance, place) == state
    assert state == allowed[-1] or not done, "it did not land, and no error said so"
    if state == allowed[0]:
        change.run(lk.dataset(place.path) if change.exists else None, place)
        assert state_of(lance, place) == state_of(lk, place) == allowed[-1], "done again"
    for handle in place.handles(lk):
        # the reference's cleanup takes only what is older than the oldest version that it keeps
        handle.insert(rows(99).select(["k"]))
    assert place.garbage(lk if faults.fail_at % 2 else lance) == set()
