"""Datasets and results of every kind that has a card."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._cache import CacheInfo, CacheUse
from lancekit._operations.common.results import MemWalMergeResult, MergedShard
from lancekit._operations.mem_wal.cleanup import MemWalCleanupStats
from lancekit._operations.mem_wal.quarantine import MemWalRepair, SetAside
from lancekit._operations.mem_wal.shards import Generation, ShardInfo, Shards
from lancekit._spark.session.info import SessionInfo, SettingDifference

NOW = datetime(2040, 1, 1, tzinfo=UTC)


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"name {i}" for i in ids]})


@pytest.fixture
def ds(tmp_path, monkeypatch):
    """A dataset with four versions, a tag and a branch, in the working folder."""
    monkeypatch.chdir(tmp_path)
    made = lk.write_dataset(
        rows(1, 2, 3), "people.lance", primary_key="id", commit_message="the first three"
    )
    made = lk.write_dataset(rows(4, 5), made, mode="append", commit_message="two more")
    made.tags.create("five", 2)
    made.delete("id = 5")
    merge = made.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(4, 6))
    made.create_branch("trial/one", "five")
    return made


def conflict():
    """Overwrite a dataset that another handle is about to add to; return the error of that."""
    made = lk.write_dataset(rows(1), "clash.lance")
    late = lk.dataset("clash.lance")
    lk.write_dataset(rows(2), made, mode="overwrite", commit_message="all <b>new</b>")
    with pytest.raises(lk.errors.IncompatibleConflictError) as caught:
        late.insert(rows(3))
    return caught.value


def failure(made):
    """Ask for a column that is not there; return the error."""
    with pytest.raises(lk.errors.PredicateError) as caught:
        made.to_table(filter="id > 1 AND '<b>' = nosuch")
    return caught.value


def shard_writer():
    """Write to a shard, and return the writer, which is open."""
    made = lk.write_dataset(rows(1), "shards.lance", primary_key="id")
    made.initialize_mem_wal()
    writer = made.mem_wal_writer("00000000-0000-0000-0000-000000000007")
    writer.put(rows(2, 3))
    writer.put(rows(4))
    return writer


def sides():
    """Change a row on two branches; return the conflict, and what became of it."""
    made = lk.write_dataset(rows(1, 2), "sides.lance", primary_key="id")
    made.create_branch("side").update({"name": "'<i>theirs</i>'"}, where="id = 1")
    made.update({"name": "'ours'"}, where="id = 1")
    with pytest.raises(lk.errors.MergeConflictError) as caught:
        made.branches.cherry_pick("side", 2)
    return {
        "comparison": made.branches.compare("side"),
        "branch plan": made.branches.merge("side", dry_run=True),
        "conflicts": caught.value.context["conflicts"],
        "nothing applied": made.branches.cherry_pick("side", 2, conflicts="ours"),
        "applied": made.branches.cherry_pick("side", 2, conflicts="theirs"),
    }


def mem_wal():
    """What was done to shards, by their names."""
    shards = (MergedShard(UUID(int=1), (3, 4, 5)), MergedShard(UUID(int=2), (7,)))
    merged = MemWalMergeResult(
        num_inserted_rows=10,
        num_updated_rows=2000,
        num_deleted_rows=3,
        num_merged_generations=4,
        num_quarantined_rows=6,
        num_skipped_generations=1,
        shards=shards,
        commits=2,
        attempts=3,
        version=9,
        read_version=7,
    )
    nothing = MemWalMergeResult(
        num_inserted_rows=0,
        num_updated_rows=0,
        num_deleted_rows=0,
        num_merged_generations=0,
        version=7,
        read_version=7,
    )
    cleaned = MemWalCleanupStats(
        generations_removed=4, quarantines_removed=1, files_removed=30, bytes_removed=5 << 20
    )
    one = SetAside(shard_id="s", position=7, file="/t/_mem_wal/s/set_aside/7-a.arrow", reason="")
    repaired = MemWalRepair([one, SetAside(shard_id="s", position=9, file=None, reason="")])
    shard = ShardInfo(
        shard_id=str(UUID(int=1)),
        spec_id=1,
        version=9,
        epoch=2,
        sealed=True,
        current_generation=6,
        merged_generation=4,
        generations=(Generation(4, "a", True, 7), Generation(5, "b", False, 2000)),
        log_entries=3,
    )
    return {
        "mem wal merge": merged,
        "no mem wal merge": nothing,
        "mem wal cleanup": cleaned,
        "mem wal repair": repaired,
        "no mem wal repair": MemWalRepair(),
        "shards": Shards([shard]),
        "no shards": Shards(),
    }


def answers():
    """Yield names of calls that return nothing in pylance, and their answers."""
    made = lk.write_dataset(rows(1, 2), "answers.lance", primary_key="id")
    made.create_branch("togo")
    inserted = made.insert({"id": [3]})
    yield "insert", inserted
    yield "overwrite", made.insert(rows(1, 2), mode="overwrite")
    yield "add columns", made.add_columns({"twice": "id * 2", "<b>thrice</b>": "id * 3"})
    yield "merge columns", made.merge({"id": [1], "note": ["x"]}, "id")
    yield "drop columns", made.drop_columns(["<b>thrice</b>"])
    yield "rename", made.alter_columns({"path": "note", "name": "remark"})
    yield (
        "alter",
        made.alter_columns(
            {"path": "twice", "data_type": pa.int32()}, {"path": "twice", "nullable": True}
        ),
    )
    yield "tag created", made.tags.create("first", 1)
    yield "tag moved", made.tags.update("first")
    yield "undo", made.undo()
    yield "tag deleted", made.tags.delete("first")
    yield "restore", made.restore(2)
    yield "branch deleted", made.branches.delete("togo")
    yield "constraint added", made.constraints.add("<i>positive</i>", "id > 0")
    yield "constraint dropped", made.constraints.drop("<i>positive</i>")
    yield "indexed", made.create_scalar_index("id", "BTREE")
    yield "indexed again", made.create_scalar_index("id", "BTREE")
    yield "nothing to index", made.optimize.optimize_indices()
    yield "rows", made.insert(rows(9))
    yield "indices optimized", made.optimize.optimize_indices()
    yield "index dropped", made.drop_index("id_idx")
    yield "field metadata", made.update_field_metadata({"id": {"unit": "m"}})
    yield "auto cleanup", made.optimize.enable_auto_cleanup({"interval": 99, "retain_versions": 9})
    yield "no auto cleanup", made.optimize.disable_auto_cleanup()
    yield "valid", made.validate(deep=True)
    made.update_config({"owner": "ada"})
    yield "config key", made.delete_config_keys(["owner"])
    made.tags.create("second")
    yield "tag metadata", made.tags.replace_metadata("second", {"<i>owner</i>": "ada"})
    made.create_branch("side")
    yield "no branch metadata", made.branches.replace_metadata("side", {})
    yield "logs", made.initialize_mem_wal(bucket_column="id", num_buckets=4)
    made.create_scalar_index("id", "BTREE")
    yield "prewarmed", made.prewarm_index("id_idx")
    yield "manifests", made.migrate_manifest_paths_v2()
    yield "sent", pickle.loads(pickle.dumps(inserted))


@pytest.fixture
def shown(ds):
    """Every kind of object that has a card, by a name."""
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    branch = ds.checkout_version(("trial/one", None))
    difference = SettingDifference("spark.sql.session.timeZone", "UTC", None, "times are UTC")
    return {
        "dataset": ds,
        "tagged": ds.checkout_version("five"),
        "branch": branch,
        "clone": ds.shallow_clone("copy.lance", "five"),
        "history": ds.versions(),
        "page": ds.versions()[:2],
        "none": ds.versions()[:0],
        "version": ds.get_version(),
        "branch version": branch.get_version(),
        "tags": ds.tags,
        "branches": ds.branches,
        "feed": ds.changes(1),
        "bisection": ds.bisect("id < 6"),
        "sweep": ds.bisect(lambda past: past.version % 2 == 1, all=True),
        "duplicates": ds.duplicates("name"),
        "row history": ds.row_history({"id": 4}),
        "rows history": ds.row_history("id < 3"),
        "column history": ds.column_history("name"),
        "column": ds["name"],
        "column values": ds["id"].statistics(rows=3),
        "no tags": lk.write_dataset(rows(1), "other.lance").tags,
        **sides(),
        "merge": merge.execute(rows(1, 7)),
        "delete": branch.delete("id < 3"),
        **mem_wal(),
        "conflict": conflict(),
        "failure": failure(ds),
        "merge plan": merge.when_not_matched_by_source_delete().preview(rows(1, 8)),
        "explanation": ds.explain.update({"name": "upper(name)"}, where="id > 1"),
        "explained restore": ds.explain.restore(),
        "no session": SessionInfo(state="none"),
        "session": SessionInfo(
            state="active",
            owned=True,
            spark_version="4.3.0",
            master="local[2,4]",
            cores=2,
            driver_memory="1g",
            java_version="17.0.2",
            java_home="/usr/lib/java",
            differences=(difference,),
        ),
        "cache": CacheInfo(
            limit=1 << 30,
            kinds={"files": CacheUse(bytes=5 << 20, entries=1200, hits=31, misses=1)},
        ),
        "no cache": CacheInfo(limit=0),
        "shard writer": shard_writer(),
        "connect": SessionInfo(state="active", connect=True, spark_version="4.3.0"),
        **dict(answers()),
    }
