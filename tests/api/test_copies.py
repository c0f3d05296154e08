"""Everything public can be pickled and copied, or says why not; what has a card: test_gallery."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError
from tests.support.copies import check_copies
from tests.support.odd_values import OWNERS, Place

#: what has neither a card nor arguments that fit nowhere
OTHERS: dict[str, Callable[[Place], Any]] = {
    "plot": lambda p: p.ds.plot,
    "explain": lambda p: p.ds.explain,
    "constraints": lambda p: p.ds.constraints,
    "session": lambda p: p.ds.session(),
    "stats": lambda p: p.ds.stats,
    "sql": lambda p: lk.sql("select 1"),
    "options": lambda _: lk.options,
    "udf": lambda _: lk.batch_udf()(len),
    "sampler": lambda _: lk.sampler.FullScanSampler(),
    "sides": lambda _: lk.Sides(),
    "sink": lambda p: lk.stream_sink(p.uri, query="q"),
    "shards": lambda p: p.ds.mem_wal_shards(),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("copies"))


@pytest.mark.parametrize("kind", OWNERS, ids=lambda kind: kind.__name__)
def test_what_is_called(place: Place, kind: type) -> None:
    made = OWNERS[kind](place)
    check_copies(made)
    if isinstance(made, lk.file.LanceFileWriter):
        made.close()


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_given_away(place: Place, name: str) -> None:
    check_copies(OTHERS[name](place))


def test_a_copy_of_a_plan_is_looked_at_and_not_applied(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "v": [1, 2]}, tmp_path / "d", primary_key="id")
    ds.create_branch("b").update({"v": "v + 1"})
    merge = ds.merge_insert("id").when_matched_update_all()
    plan = merge.preview({"id": [1], "v": [5]})
    for other in (pickle.loads(pickle.dumps(plan)), copy(deepcopy(plan))):
        assert (dict(other), other.changes) == (dict(plan), plan.changes)
        other.close()
        with pytest.raises(InvalidArgumentError, match="copied or unpickled"):
            other.apply()
    of_branch = ds.branches.merge("b", dry_run=True)
    for one in (pickle.loads(pickle.dumps(of_branch)), deepcopy(of_branch)):
        assert dict(one) == dict(of_branch)
        assert one.resolved("theirs").num_unsettled == 0
        with pytest.raises(InvalidArgumentError, match="copied or unpickled"):
            one.apply()
    assert plan.apply().version == 2


def test_a_picture_that_was_sent_has_its_drawing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "d")
    for picture in (ds.plot.fragments(), ds.plot.graph()):
        sent = pickle.loads(pickle.dumps(picture))
        for name in ("text", "alt", "mermaid"):
            assert getattr(sent, name) == getattr(picture, name)
        # ids of matplotlib's are others each time
        assert sent.svg.partition("<style")[0] == (picture.svg or "").partition("<style")[0]
        assert sent._repr_mimebundle_().keys() == picture._repr_mimebundle_().keys()
        assert deepcopy(picture) is copy(picture) is picture


def test_scanners_of_shards_that_were_sent_read_what_there_is(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "d", primary_key="id")
    ds.initialize_mem_wal()
    with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        writer.put({"id": [3]})
        with pytest.raises(TypeError, match="a shard has only one"):
            pickle.dumps(writer.lsm_scanner())
    assert pickle.loads(pickle.dumps(ds.lsm_scanner())).count_rows() == 3
    some = lk.LsmScanner.from_snapshots(ds, [])
    assert pickle.loads(pickle.dumps(some)).count_rows() == 2
    ds.create_scalar_index("id", "BTREE")
    assert list(pickle.loads(pickle.dumps(ds.indices))) == ["id_idx"]
