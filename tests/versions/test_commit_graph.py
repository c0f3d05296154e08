"""Merge bases: of random histories beside a plain graph, and of histories that had wrong ones."""

from __future__ import annotations

import random
import shutil
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.names import MAIN
from lancekit._operations.lineage import apply_changes
from lancekit._versions.ancestor import unique_name
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.merge_edges import (
    MergeEdge,
    SharedIds,
    VersionVector,
    merge_edges,
    not_contained,
)
from lancekit.errors import FormatError, UnsupportedFeatureError, VersionNotFoundError
from tests.support.forked import at_once

Point = tuple[str, int]


@dataclass
class Graph:
    """Lines of versions, each with its parents, and the config that each has."""

    chance: random.Random
    forks: dict[str, Point] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=lambda: {MAIN: 1})
    configs: dict[Point, dict[str, str]] = field(default_factory=lambda: {(MAIN, 1): {}})
    ancestors: dict[Point, frozenset[Point]] = field(
        default_factory=lambda: {(MAIN, 1): frozenset({(MAIN, 1)})}
    )

    def point(self, name: str, version: int) -> Point:
        """Return the one name of a version: a branch begins with the version it forked from."""
        while name in self.forks and version == self.forks[name][1]:
            name, version = self.forks[name]
        return name, version

    def vector(self, name: str, version: int) -> VersionVector:
        chain, config = [(name, version)], self.configs[name, version]
        while name in self.forks:
            name, version = self.forks[name]
            chain.append((name, version))
        return VersionVector.of(chain, config)

    def head(self, name: str) -> Point:
        return name, self.heads[name]

    def commit(self, name: str, config: dict[str, str], *parents: Point) -> None:
        before = self.head(name)
        self.heads[name] += 1
        new = self.head(name)
        self.configs[new] = self.configs[before] | config
        known = [self.ancestors[self.point(*one)] for one in (before, *parents)]
        self.ancestors[new] = frozenset({new}).union(*known)

    def fork(self, name: str, new: str = "") -> str:
        new = new or f"{len(self.forks):032x}"
        self.forks[new] = self.head(name)
        self.heads[new] = self.heads[name]
        self.configs[self.head(new)] = self.configs[self.head(name)]
        return new

    def merge(self, source: str, target: str, late: int) -> None:
        """Merge a version of a line that may have moved on since it was looked at."""
        first = self.forks[source][1] if source in self.forks else 1
        theirs = (source, max(self.heads[source] - late, first))
        ours = self.vector(*self.head(target))
        if ours.contains(*self.vector(*theirs).point):
            return
        edges = merge_edges(self.vector(*theirs), f"{theirs}", ours, target)
        entries = {edge.key: f"{edge.version} {edge.origin}".strip() for edge in edges}
        self.commit(target, entries, theirs)

    def step(self) -> None:
        lines = sorted(self.heads)
        what = self.chance.choice(["commit", "commit", "fork", "merge", "merge", "merge"])
        if what == "merge" and len(lines) > 1:
            source, target = self.chance.sample(lines, 2)
            self.merge(source, target, self.chance.choice([0, 0, 0, 1]))
        elif what == "fork" and len(lines) < 5:
            self.fork(self.chance.choice(lines))
        else:
            self.commit(self.chance.choice(lines), {})

    def bases(self, one: Point, other: Point) -> set[Point]:
        """Return the common ancestors that are ancestors of no other."""
        both = self.ancestors[self.point(*one)] & self.ancestors[self.point(*other)]
        return {p for p in both if not any(p in self.ancestors[q] for q in both if q != p)}

    def found(self, one: Point, other: Point) -> set[Point]:
        """Return the merge bases by version vectors."""
        left, right = self.vector(*one).versions, self.vector(*other).versions
        common = {name: min(left[name], right[name]) for name in left.keys() & right.keys()}
        common = {n: v for n, v in common.items() if n == MAIN or v > self.forks[n][1]}
        vectors = {name: self.vector(name, version) for name, version in common.items()}
        return {(name, common[name]) for name in not_contained(common, vectors)}


@pytest.mark.torture
def test_merge_bases_of_random_graphs(whole: bool) -> None:
    several = 0
    for seed in range(20_000 if whole else 1_500):
        graph = Graph(random.Random(seed))
        for _ in range(graph.chance.randint(3, 25)):
            graph.step()
        for one in graph.heads:
            for other in graph.heads:
                if one < other:
                    expected = graph.bases(graph.head(one), graph.head(other))
                    several += len(expected) > 1
                    assert graph.found(graph.head(one), graph.head(other)) == expected, seed
    assert several > 50  # criss-cross merges are among them


@pytest.mark.parametrize("seed", range(3))
def test_merge_bases_of_datasets(seed: int) -> None:
    """The same histories as commits, forks and merges of datasets."""
    graph = Graph(random.Random(seed))
    ds = lk.write_dataset({"id": [0]}, f"memory://merge-bases-{seed}", primary_key="id")
    names, handles = {MAIN: MAIN}, {MAIN: ds}
    for number in range(1, 14):
        lines = sorted(graph.heads)
        what = graph.chance.choice(["commit", "fork", "merge", "merge"])
        source, target = graph.chance.choice(lines), graph.chance.choice(lines)
        if what == "merge" and source != target:
            before = handles[target].latest_version
            ds.branches.merge(names[source], into=names[target])
            handles[target].checkout_latest()
            if handles[target].version > before:
                graph.merge(source, target, 0)
        elif what == "fork" and len(lines) < 4:
            name = f"b{number}"
            handle = handles[source].create_branch(name)
            new = graph.fork(source, unique_name(handle._location))
            names[new], handles[new] = name, handle
        else:
            handles[source].insert({"id": [number]}, mode="append")
            graph.commit(source, {})
    for one, left in handles.items():
        for other, right in handles.items():
            if one != other:
                found = CommitGraph(ds._location).merge_bases(left._snapshot, right._snapshot)
                points = {graph.point(base.name, base.version) for base in found}
                assert points == graph.bases(graph.head(one), graph.head(other))


def test_what_a_key_says() -> None:
    edge = MergeEdge(source="a" * 32, target=MAIN, version=7, uuid="some-uuid", taken_by=3)
    carried = replace(edge, taken_by=None, ids=SharedIds(5, 4, 1000))
    chain = [(MAIN, 9)]
    for key, text, expected in (
        (edge.key, f"7 {edge.origin}", edge),
        (edge.key, f"7 {carried.origin}", carried),
        (edge.key, "7 some-uuid fast-forward 3 ids 7 3 12", replace(edge, ids=SharedIds(7, 3, 12))),
        (edge.key, "7 some-uuid fast-forward 3 ids 7 3", edge),
        # as the first lancekit wrote it
        (f"lancekit.merge.{edge.source}", "7 fast-forward 3", {"version": 7, "taken_by": 3}),
        (f"lancekit.merge.{edge.source}", "7", {"version": 7, "taken_by": None}),
    ):
        found = VersionVector.of(chain, {key: text}).edges[edge.source]
        wanted = expected if isinstance(expected, dict) else asdict(expected)
        wanted["ids"] = getattr(expected, "ids", None)
        assert {name: getattr(found, name) for name in wanted} == wanted
    # of a clone's source, or of another line
    assert not VersionVector.of(chain, {"lancekit.merge.main." + "b" * 32: "7"}).edges
    for text in ("", "many"):
        with pytest.raises(FormatError, match="must be a number"):
            VersionVector.of(chain, {edge.key: text})


@pytest.mark.parametrize("forward", [False, True])
def test_keys_of_the_first_lancekit_are_read(tmp_path: Path, forward: bool) -> None:
    """They have no target, and no transaction; a fork inherits them, and a merge adds its own."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    exp.update({"n": "10"}, where="id = 1")
    if not forward:
        ds.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    (key,) = ds.config()
    old = "2 fast-forward 2" if forward else "2"
    ds.update_config({key: None, key.removesuffix(".main"): old})
    fork = ds.create_branch("fork")
    exp.update({"n": "11"}, where="id = 1")
    for line, second in ((ds, "30"), (fork, "40")):
        assert line.branches.compare("exp").base == ("exp", 2)
        line.update({"n": second}, where="id = 2")
        result = line.branches.merge("exp")
        assert (result.how, result.base) == ("three-way", ("exp", 2))
        assert values(line) == {1: 11, 2: int(second)}
        new = f"{key.removesuffix('.main')}.{unique_name(line._location)}"
        assert line.config()[new].split()[0] == "3"
        assert line.branches.merge("exp").how == "nothing to do"


def table(uri: str, rows: dict[str, Any]) -> lk.LanceDataset:
    return lk.write_dataset(rows, f"memory://{uri}", primary_key="id")


def values(ds: lk.LanceDataset) -> dict[int, int]:
    found = ds.to_table().to_pydict()
    return dict(zip(found["id"], found["n"], strict=True))


def test_a_merge_by_way_of_a_third_branch_keeps_its_update() -> None:
    ds = table("third-branch", {"id": [2, 4], "n": [2, 4]})
    exp = ds.create_branch("exp")
    sub = exp.create_branch("sub")
    sub.update({"n": "6"}, where="id = 2")
    ds.branches.merge("sub")
    sub.update({"n": "2"}, where="id = 2")
    exp.branches.merge("sub", into="exp")
    exp.checkout_latest()
    exp.update({"n": "40"}, where="id = 4")
    assert ds.branches.compare("exp").base == ("sub", 2)
    ds.branches.merge("exp")
    assert ds.branches.merge("sub").how == "nothing to do"
    assert values(ds) == {2: 2, 4: 40}


@pytest.mark.parametrize("newer", [1, 8])
def test_both_sides_merged_a_third_branch(newer: int) -> None:
    ds = table(f"both-merged-{newer}", {"id": [1, 2], "n": [1, 2]})
    exp, sub = ds.create_branch("exp"), ds.create_branch("sub")
    sub.update({"n": "6"}, where="id = 1")
    ds.branches.merge("sub")
    exp.branches.merge("sub", into="exp")
    ds.checkout_latest()
    exp.checkout_latest()
    ds.update({"n": str(newer)}, where="id = 1")
    exp.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    assert values(ds) == {1: newer, 2: 20}


def test_a_fork_of_a_version_without_changes_of_its_own() -> None:
    """The first version of a branch is the version that it forked from."""
    ds = table("no-race", {"id": [1, 2, 3], "n": [1, 2, 3]})
    b0 = ds.create_branch("b0")
    b1 = b0.create_branch("b1")
    ds.update({"n": "10"}, where="id = 1")
    b0.branches.rebase("b0")
    b1.update({"n": "20"}, where="id = 2")
    ds.branches.merge("b1")
    b0.update({"n": "30"}, where="id = 3")
    ds.branches.merge("b0")
    assert values(ds) == {1: 10, 2: 20, 3: 30}
    b0.branches.rebase("b0")
    assert values(b0) == values(ds)


def test_a_merge_of_a_branch_without_versions_of_its_own() -> None:
    ds = table("nothing-of-its-own", {"id": [1, 2, 3], "n": [1, 2, 3]})
    ds.update({"n": "5"}, where="id = 1")
    ds.update({"n": "6"}, where="id = 2")
    one = ds.create_branch("one", 2)
    ds.create_branch("two", 3)
    one.update({"n": "7"}, where="id = 3")
    one.branches.merge("two", into="one")
    ds.update({"n": "8"}, where="id = 2")
    ds.branches.merge("one")
    assert values(ds) == {1: 5, 2: 8, 3: 7}


MERGE = """
import sys
import lancekit as lk
ds = lk.dataset(sys.argv[1])
ds.branches.merge(sys.argv[2])
"""


def test_merges_at_once_keep_the_keys_of_each_other(tmp_path: Path) -> None:
    """Real processes, and branches that all merged another one."""
    ds = lk.write_dataset({"id": [0], "n": [0]}, tmp_path / "t", primary_key="id")
    shared = ds.create_branch("shared")
    shared.insert({"id": [100], "n": [1]}, mode="append")
    sources = [f"b{number}" for number in range(4)]
    for number, name in enumerate(sources):
        branch = ds.create_branch(name)
        branch.branches.merge("shared", into=name)
        branch.checkout_latest()
        branch.insert({"id": [number + 1], "n": [1]}, mode="append")
    ds.insert({"id": [50], "n": [1]}, mode="append")
    errors = [error for _, error in at_once([(MERGE, ds.uri, name) for name in sources])]
    assert errors == [""] * len(sources)
    assert sorted(lance.dataset(ds.uri).to_table()["id"].to_pylist()) == [0, 1, 2, 3, 4, 50, 100]
    ds.checkout_latest()
    names = [unique_name(ds._location.on(name)) for name in [*sources, "shared"]]
    assert set(ds.config()) == {f"lancekit.merge.{name}.main" for name in names}
    for name in sources:
        key = f"lancekit.merge.{unique_name(ds._location.on(name))}.main"
        uuid = ds.checkout_version((name, None)).read_transaction(3).uuid
        assert ds.config()[key].split()[:2] == ["3", uuid]
        assert ds.branches.merge(name).how == "nothing to do"


def test_a_merge_that_came_first_moves_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another merge brings a later version of what both have, which took a change back."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    shared, one, other = (ds.create_branch(name) for name in ("shared", "one", "other"))
    shared.update({"n": "6"}, where="id = 1")
    one.branches.merge("shared", into="one")
    shared.update({"n": "1"}, where="id = 1")
    shared.insert({"id": [3], "n": [3]}, mode="append")
    other.branches.merge("shared", into="other")
    ds.insert({"id": [4], "n": [4]}, mode="append")
    planned = apply_changes.planned
    late = [lambda: lk.dataset(ds.uri).branches.merge("other")]

    def after_another(*arguments: Any, **options: Any) -> Any:
        plan = planned(*arguments, **options)
        if late:
            late.pop()()
        return plan

    monkeypatch.setattr(apply_changes, "planned", after_another)
    ds.branches.merge("one")
    assert values(ds) == {1: 1, 2: 2, 3: 3, 4: 4}


def test_a_base_that_another_version_replaced(tmp_path: Path) -> None:
    """A branch that was put back from a copy gave out the number of its merged version again."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    shutil.copytree(exp._location.uri, tmp_path / "copy")
    exp.update({"n": "10"}, where="id = 1")
    ds.update({"n": "20"}, where="id = 2")
    ds.branches.merge("exp")
    shutil.rmtree(exp._location.uri)
    shutil.copytree(tmp_path / "copy", exp._location.uri)
    exp = lk.dataset(ds.uri).checkout_version(("exp", None))
    exp.update({"n": "11"}, where="id = 1")
    exp.update({"n": "12"}, where="id = 1")
    assert exp.version == 3
    with pytest.raises(VersionNotFoundError, match="its number was reused"):
        ds.branches.merge("exp")


def test_the_newest_manifests_know_the_next_merge_base(tmp_path: Path) -> None:
    """The cleanup of the reference leaves these, and versions that branches forked from."""
    ds, exp, sub = both_merged(tmp_path)
    for line in (ds, exp, sub):
        lance.dataset(line._location.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert [len(line.versions()) for line in (ds, exp, sub)] == [2, 1, 1]
    assert ds.branches.compare("exp").base == ("sub", 2)
    ds.branches.merge("exp")
    assert values(ds) == {1: 1, 2: 20}


def test_a_deleted_branch_is_a_base_where_a_merge_took_it_over(tmp_path: Path) -> None:
    ds, _, _ = both_merged(tmp_path)
    lance.dataset(ds.uri).branches.delete("sub")
    assert ds.branches.compare("exp").base == ("main", 2)
    ds.branches.merge("exp")
    assert values(ds) == {1: 1, 2: 20}


def test_a_hotfix_that_was_merged_twice_and_deleted() -> None:
    """One merge was a fast-forward: its version stands in, and contains the other candidates."""
    ds = table("hotfix", {"id": [1, 2, 3], "n": [1, 2, 3]})
    dev = ds.create_branch("dev")
    ds.update({"n": "7"}, where="id = 3")
    hotfix = ds.create_branch("hotfix")
    hotfix.update({"n": "10"}, where="id = 1")
    ds.update({"n": "8"}, where="id = 3")
    ways = [ds.branches.merge("hotfix", into=into).how for into in ("main", "dev")]
    assert ways == ["three-way", "fast-forward"]
    dev.checkout_latest()
    dev.update({"n": "20"}, where="id = 2")
    ds.branches.delete("hotfix")
    assert ds.branches.compare("dev").base == ("dev", 2)
    ds.branches.merge("dev")
    assert values(ds) == {1: 10, 2: 20, 3: 8}


def both_merged(folder: Path) -> list[lk.LanceDataset]:
    """Return main and a branch that both merged a third branch, and that branch."""
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, folder / "t", primary_key="id")
    exp, sub = ds.create_branch("exp"), ds.create_branch("sub")
    sub.update({"n": "6"}, where="id = 1")
    ds.branches.merge("sub")
    exp.branches.merge("sub", into="exp")
    exp.checkout_latest()
    ds.update({"n": "1"}, where="id = 1")
    exp.update({"n": "20"}, where="id = 2")
    return [ds, exp, sub]


def test_a_table_may_require_a_newer_lancekit() -> None:
    ds = table("requires", {"id": [1], "n": [1]})
    exp = ds.create_branch("exp")
    exp.update({"n": "2"})
    ds.update_config({"lancekit.requires": "merge-keys"})
    ds.branches.merge("exp")
    exp.update({"n": "3"})
    ds.update_config({"lancekit.requires": "merge-keys octopus"})
    for call in (
        lambda: ds.branches.merge("exp"),
        lambda: ds.branches.merge("exp", dry_run=True),
        lambda: exp.branches.rebase("exp"),
        lambda: ds.branches.cherry_pick("exp", 3),
        lambda: ds.revert(3),
        lambda: exp.diff(2).apply(ds),
        lambda: ds.cleanup_old_versions(timedelta(0)),
        lambda: ds.explain_cleanup_old_versions(timedelta(0)),
    ):
        with pytest.raises(UnsupportedFeatureError, match="'octopus', which this release"):
            call()
    assert values(ds) == {1: 2}
    assert len(ds.versions()) == ds.version


def test_commits_record_their_parents(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "n": [1, 2]}, tmp_path / "t", primary_key="id")
    exp = ds.create_branch("exp")
    for number in range(3):
        exp.update({"n": str(number)}, where="id = 1")
    ds.update({"n": "7"}, where="id = 2")

    def said(handle: lk.LanceDataset, name: str) -> str:
        handle.checkout_latest()
        properties = handle.read_transaction(handle.version).transaction_properties
        return properties[f"lancekit.apply.{name}.commit"]

    def commit(handle: lk.LanceDataset, version: int) -> str:
        uuid = handle.read_transaction(version).uuid
        return f"{unique_name(handle._location)} {version} {uuid}"

    ds.branches.cherry_pick("exp", 2)
    assert (said(ds, "base"), said(ds, "theirs")) == (commit(exp, 1), commit(exp, 2))
    ds.revert(3)
    assert (said(ds, "base"), said(ds, "theirs")) == (commit(ds, 3), commit(ds, 2))
    ds.branches.merge("exp", conflicts="theirs")
    assert said(ds, "theirs") == commit(exp, 4)
    ds.update({"n": "8"}, where="id = 2")
    exp.branches.rebase("exp")
    assert (said(exp, "base"), said(exp, "theirs")) == (commit(exp, 4), commit(ds, ds.version))
    ds.diff(1, 2).apply(exp, conflicts="theirs")
    assert said(exp, "theirs") in (commit(ds, 1), commit(ds, 2))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_base_that_is_there_as_the_first_version_of_a_fork(tmp_path: Path, stable: bool) -> None:
    """A cleanup of the branch removed the version there."""
    ds = lk.write_dataset(
        {"id": [1, 2], "n": [1, 2], "m": [1, 2]},
        tmp_path / "t",
        primary_key="id",
        enable_stable_row_ids=stable,
    )
    one = ds.create_branch("one")
    one.update({"n": "10"}, where="id = 1")
    two = one.create_branch("two")
    two.alter_columns({"path": "m", "name": "k"})
    two.update({"k": "7"}, where="id = 1")
    one.update({"m": "8"}, where="id = 2")
    one.update({"n": "id * 100"})
    for version in (2, 3):
        gone = ds.checkout_version(("one", version))._snapshot
        (Path(one._location.uri) / "_versions" / gone.manifest_name).unlink()
    assert one.branches.compare("two").base == ("two", 2)
    one.branches.merge("two")
    rows = {row.pop("id"): row for row in one.to_table().to_pylist()}
    assert rows == {1: {"n": 100, "k": 7}, 2: {"n": 200, "k": 8}}
