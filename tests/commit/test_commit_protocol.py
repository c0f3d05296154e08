"""The commit protocol: which calls of the store it makes, and what it says when they go wrong."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._commit import protocol
from lancekit._commit.rules.pending import Pending
from lancekit._format import operations as ops
from lancekit._storage.local import LocalStore
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot, load_snapshot
from tests.support.faults import Faults, Mode, injected

ROWS = pa.table({"x": [1, 2, 3]})


def table(path: Path, count: int = 1) -> Path:
    lk.write_dataset(ROWS, path)
    for _ in range(count - 1):
        lk.write_dataset(ROWS, path, mode="append")
    return path


def opened(path: Any, options: dict[str, str] | None = None) -> Snapshot:
    return latest_snapshot(open_location(path, options))


def append(snapshot: Snapshot, **changes: Any) -> Pending:
    """An append of the first fragment's file: prepared, nothing is written for it."""
    fragment = replace(snapshot.manifest.fragments[0], id=0)
    operation = ops.Append(fragments=(fragment,))
    return Pending(operation=operation, uuid=str(uuid.uuid4()), **changes)


def quick(sleeps: list[float] | None = None) -> protocol.Clock:
    kept = sleeps if sleeps is not None else []
    return protocol.Clock(sleep=kept.append, random=random.Random(5))


# ---- what is asked of the store


@pytest.mark.parametrize("place", ["local", "memory", "s3"])
def test_nothing_is_read_twice(tmp_path, s3, place: str) -> None:
    """With a fresh handle: one listing, the transaction, the manifest, the hint.

    What this process put in an object store it need not read: the listing brings the tag.
    """
    uri, options = {
        "local": (str(tmp_path / "d"), None),
        "memory": ("memory://protocol-calls", None),
        "s3": (f"s3://{s3.bucket}/protocol-calls", s3.storage_options),
    }[place]
    lk.write_dataset(ROWS, uri, storage_options=options)
    faults = Faults()
    with injected(faults):
        snapshot = opened(uri, options)
        opening = [call.kind for call in faults.calls]
        faults.calls.clear()
        landed = protocol.commit(snapshot, append(snapshot))
    assert opening == (["list_names", "tail"] if place == "local" else ["list_names"])
    assert [(call.kind, call.name.partition("/")[0]) for call in faults.calls] == [
        ("list_names", "_versions"),
        ("put", "_transactions"),
        ("put_if_absent", "_versions"),
        ("put_hint", "_versions"),
    ]
    assert landed.version == 2
    assert landed.transaction is not None
    again = load_snapshot(landed.location, 2)
    assert (again.manifest, again.transaction) == (landed.manifest, landed.transaction)


def test_what_was_put_is_what_is_read(tmp_path) -> None:
    """The version that a commit returns is the one that a reader finds, large or with indices."""
    path = str(tmp_path / "d")
    lance.write_dataset(pa.table({"x": range(1000)}), path, max_rows_per_file=1)
    lance.dataset(path).create_scalar_index("x", "BTREE")
    snapshot = opened(path)
    assert snapshot.manifest_size > 1 << 16
    landed = protocol.commit(snapshot, append(snapshot))
    found = opened(path)
    assert landed.manifest == found.manifest
    assert landed.indices == found.indices != ()
    assert landed.transaction == found.transaction
    assert (landed.manifest_size, landed.mark) == (found.manifest_size, found.mark)


def test_others_versions_are_read_once_each(tmp_path) -> None:
    path = table(tmp_path / "d")
    stale = opened(path)
    table_size = 4
    for _ in range(table_size):
        lk.write_dataset(ROWS, path, mode="append")
    faults = Faults()
    with injected(faults):
        line = open_location(path)
        landed = protocol.commit(replace(stale, location=line), append(stale))
    assert landed.version == 2 + table_size
    assert [call.kind for call in faults.calls] == [
        "list_names", *["tail"] * table_size, "put", "put_if_absent", "put_hint",
    ]  # fmt: skip


# ---- the same transaction twice


def test_a_transaction_lands_once(tmp_path) -> None:
    path = table(tmp_path / "d")
    snapshot = opened(path)
    mine = append(snapshot)
    first = protocol.commit(snapshot, mine)
    protocol.commit(first, append(first))
    again = protocol.commit(snapshot, mine)
    assert again.version == first.version == 2
    assert lk.dataset(path).version == 3
    assert lance.dataset(str(path)).count_rows() == 9


def test_a_transaction_that_the_reference_landed_is_recognised(tmp_path) -> None:
    path = table(tmp_path / "d")
    snapshot = opened(path)
    lance.write_dataset(ROWS, path, mode="append")
    theirs = lance.dataset(str(path)).read_transaction(2).uuid
    mine = replace(append(snapshot), uuid=theirs)
    assert protocol.commit(snapshot, mine).version == 2


# ---- lost replies, unknown outcomes


@pytest.mark.parametrize("mode", [Mode.REFUSED, Mode.LOST])
@pytest.mark.parametrize("kind", ["list_names", "put", "put_if_absent"])
def test_each_call_may_fail(tmp_path, kind: str, mode: Mode) -> None:
    if kind == "list_names" and mode is Mode.LOST:
        return  # a lost reply to a question is no reply
    path = table(tmp_path / "d")
    faults = Faults()
    with injected(faults):
        snapshot = opened(path)
        number = {"list_names": 1, "put": 2, "put_if_absent": 3}[kind]
        faults.fail_at, faults.mode = len(faults.calls) + number, mode
        if kind == "put_if_absent" and mode is Mode.LOST:
            assert protocol.commit(snapshot, append(snapshot)).version == 2
        else:
            with pytest.raises(errors.StorageError):
                protocol.commit(snapshot, append(snapshot))
    landed = kind == "put_if_absent" and mode is Mode.LOST
    assert lk.dataset(path).version == (2 if landed else 1)
    # a transaction whose manifest did not land may stay: cleanup finds it
    left = len(list(path.glob("_transactions/*"))) - 1
    assert left == (
        0 if (kind, mode) in {("list_names", Mode.REFUSED), ("put", Mode.REFUSED)} else 1
    )


def test_an_unknown_outcome_is_said(tmp_path) -> None:
    """The put fails, and so does every question about it."""
    path = table(tmp_path / "d")

    class Gone(Faults):
        def run(self, kind: str, name: str, *rest: Callable[[], Any]) -> Any:
            result = super().run(kind, name, *rest)
            if any(call.kind == "put_if_absent" for call in self.calls):
                raise errors.StorageError("the network is gone")
            return result

    with injected(Gone()):
        snapshot = opened(path)
        mine = append(snapshot)
        with pytest.raises(errors.CommitUnknownError, match=mine.uuid) as caught:
            protocol.commit(snapshot, mine)
    assert caught.value.context["version"] == 2
    # it had landed: committing it again says so
    assert protocol.commit(load_snapshot(open_location(path), 1), mine).version == 2
    assert lk.dataset(path).version == 2


# ---- races, back-off, deadlines


class Beaten(Faults):
    """Somebody else commits just before each of my puts."""

    def __init__(self, path: Path, times: int = 10**6) -> None:
        super().__init__()
        self.path, self.times = path, times
        self.before = self._beat

    def _beat(self, call: Any) -> None:
        if call.kind == "put_if_absent" and self.times > 0:
            self.times -= 1
            other = opened(self.path)
            store = LocalStore(self.path)
            injected_before, self.before = self.before, None
            protocol.commit(
                replace(other, location=replace(other.location, root=store)), append(other)
            )
            self.before = injected_before


def test_a_lost_race_is_run_again(tmp_path) -> None:
    path = table(tmp_path / "d")
    sleeps: list[float] = []
    with injected(Beaten(path, 3)):
        snapshot = opened(path)
        landed = protocol.commit(snapshot, append(snapshot), clock=quick(sleeps))
    assert landed.version == 5
    assert len(sleeps) == 3
    assert all(0 <= pause <= 5 for pause in sleeps)
    assert len(list(path.glob("_transactions/*"))) == 5, "of lost races nothing is left"


def test_a_lost_race_writes_nothing_twice(tmp_path) -> None:
    path = table(tmp_path / "d")
    beaten = Beaten(path, 3)
    with injected(beaten):
        snapshot = opened(path)
        mine = append(snapshot)
        protocol.commit(snapshot, mine, clock=quick())
    written = [call.name for call in beaten.calls if mine.uuid in call.name]
    assert written == [f"_transactions/1-{mine.uuid}.txn"]
    with injected(Beaten(path)) as faults:
        snapshot = opened(path)
        mine = append(snapshot)
        with pytest.raises(errors.RetriesExhaustedError):
            protocol.commit(snapshot, mine, max_retries=2, clock=quick())
    assert [call.kind for call in faults.calls if mine.uuid in call.name] == ["put", "delete"]
    assert not list(path.glob(f"_transactions/*{mine.uuid}*"))


def test_the_first_pauses_are_shorter_than_an_attempt(tmp_path) -> None:
    path = table(tmp_path / "d")
    now = [0.0]

    def elapsed() -> float:
        now[0] += 0.05
        return now[0]

    class Longest(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    sleeps: list[float] = []
    clock = protocol.Clock(elapsed=elapsed, sleep=sleeps.append, random=Longest())
    with injected(Beaten(path, 5)):
        snapshot = opened(path)
        protocol.commit(snapshot, append(snapshot), clock=clock)
    unit = 2 * sleeps[0]  # what an attempt took, and somewhat more
    assert 0.05 < unit < 0.1
    assert sleeps == pytest.approx([unit * share for share in (0.5, 1, 2, 4, 8)])


def test_back_off_grows_with_the_time_of_an_attempt(tmp_path) -> None:
    path = table(tmp_path / "d")
    for seconds, longest in ((0.001, 1.0), (0.5, 5.0)):
        now = [0.0]

        def elapsed(now: list[float] = now, seconds: float = seconds) -> float:
            now[0] += seconds
            return now[0]

        sleeps: list[float] = []
        clock = protocol.Clock(elapsed=elapsed, sleep=sleeps.append, random=random.Random(3))
        with injected(Beaten(path)):
            snapshot = opened(path)
            mine = append(snapshot)
            with pytest.raises(errors.RetriesExhaustedError) as caught:
                protocol.commit(snapshot, mine, max_retries=6, clock=clock)
        assert caught.value.context["attempts"] == 6
        assert len(sleeps) == 5, "none after the last attempt"
        assert max(sleeps) <= longest


def test_there_is_a_deadline(tmp_path) -> None:
    path = table(tmp_path / "d")
    seconds = iter(range(0, 1000, 4))
    clock = protocol.Clock(elapsed=lambda: float(next(seconds)), sleep=lambda _: None)
    with injected(Beaten(path)):
        snapshot = opened(path)
        mine = append(snapshot)
        with pytest.raises(errors.RetriesExhaustedError, match="10 s are over"):
            protocol.commit(snapshot, mine, timeout=timedelta(seconds=10), clock=clock)


# ---- history


def test_history_must_be_whole(tmp_path) -> None:
    """A version that is gone is not passed over, at either end or in the middle."""
    for gone in (2, 3, 4):
        path = table(tmp_path / f"d{gone}")
        stale = opened(path)
        for _ in range(4):
            lk.write_dataset(ROWS, path, mode="append")
        (path / "_versions" / f"{2**64 - 1 - gone}.manifest").unlink()
        with pytest.raises(errors.RetryableConflictError, match=f"version {gone} "):
            protocol.commit(stale, append(stale))
        assert lk.dataset(path).version == 5


def test_a_version_that_was_cleaned_up_can_still_be_built_on(tmp_path) -> None:
    """Mine was read, then removed; all that landed since is there to be checked."""
    path = table(tmp_path / "d", 3)
    stale = load_snapshot(open_location(path), 2)
    for gone in (1, 2):
        (path / "_versions" / f"{2**64 - 1 - gone}.manifest").unlink()
    assert protocol.commit(stale, append(stale)).version == 4


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_another_dataset_at_the_same_place(tmp_path, versions: int) -> None:
    path = table(tmp_path / "d", 2)
    stale = opened(path)
    shutil.rmtree(path)
    table(path, versions)
    with pytest.raises(errors.IncompatibleConflictError, match="replaced by another dataset"):
        protocol.commit(stale, append(stale))
    assert lk.dataset(path).version == versions


def test_a_copy_is_the_same_dataset(tmp_path) -> None:
    """A backup that was put back has other files with the same content."""
    path = table(tmp_path / "d")
    stale = opened(path)
    shutil.move(path, tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", path)
    assert protocol.commit(stale, append(stale)).version == 2


# ---- strict overwrites, detached versions


def overwrite(snapshot: Snapshot) -> Pending:
    manifest = snapshot.manifest
    fragment = replace(manifest.fragments[0], id=0)
    operation = ops.Overwrite(manifest.schema, (fragment,))
    return Pending(operation=operation, uuid=str(uuid.uuid4()))


def test_a_strict_overwrite_becomes_the_next_version_or_none(tmp_path) -> None:
    path = table(tmp_path / "d")
    snapshot = opened(path)
    lk.write_dataset(ROWS, path, mode="append")
    with pytest.raises(errors.RetriesExhaustedError, match="version 2, which is taken"):
        protocol.commit(snapshot, overwrite(snapshot), max_retries=0)
    assert lk.dataset(path).version == 2
    now = opened(path)
    mine = overwrite(now)
    assert protocol.commit(now, mine, max_retries=0).version == 3
    assert protocol.commit(now, mine, max_retries=0).version == 3, "it is mine"
    assert lance.dataset(str(path)).count_rows() == 3
    lk.write_dataset(ROWS, path, mode="append")
    assert protocol.commit(now, mine, max_retries=0).version == 3, "it is still mine"


def test_a_strict_overwrite_takes_no_place_that_a_cleanup_made(tmp_path) -> None:
    path = table(tmp_path / "d")
    snapshot = opened(path)
    for _ in range(2):
        ds = lk.write_dataset(ROWS, path, mode="append")
    ds.tags.create("kept", 1)
    ds.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert [version["version"] for version in ds.versions()] == [1, 3]
    with pytest.raises(errors.RetriesExhaustedError, match="version 2, which is taken"):
        protocol.commit(snapshot, overwrite(snapshot), max_retries=0)
    assert [version["version"] for version in ds.versions()] == [1, 3]


def test_detached_versions(tmp_path) -> None:
    path = table(tmp_path / "d")
    snapshot = opened(path)
    lk.write_dataset(ROWS, path, mode="overwrite")
    landed = protocol.commit(snapshot, append(snapshot), detached=True)
    assert landed.version >= 2**63
    assert landed.manifest_name == f"d{landed.version}.manifest"
    assert lk.dataset(path).version == lance.dataset(str(path)).version == 2
    assert [v["version"] for v in lk.dataset(path).versions()] == [1, 2]
    assert lk.dataset(path, version=landed.version).count_rows() == 6
    assert lance.dataset(str(path), version=landed.version).count_rows() == 6
    assert (path / "_versions/latest_version_hint.json").read_bytes() == b'{"version":2}'
    with pytest.raises(errors.InvalidArgumentError, match="detached"):
        protocol.commit(landed, append(landed))
    again = protocol.commit(landed, append(landed), detached=True)
    assert lk.dataset(path, version=again.version).count_rows() == 9


def test_a_detached_version_of_the_reference_opens(tmp_path) -> None:
    path = str(table(tmp_path / "d"))
    fragment = lance.dataset(path).get_fragments()[0].metadata
    theirs = lance.LanceDataset.commit(
        path, lance.LanceOperation.Append([fragment]), read_version=1, detached=True
    )
    assert lk.dataset(path, version=theirs.version).count_rows() == 6
    assert lk.dataset(path).version == 1
