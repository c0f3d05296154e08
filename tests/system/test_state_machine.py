"""Any order of operations, by both libraries and by handles that lag behind, against a model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lancekit as lk
from tests.support.remembering import all_remembered

KEY = {"lance-schema:unenforced-primary-key": "true"}
BASE = {"k": pa.field("k", pa.int64(), False, KEY), "v": pa.field("v", pa.string())}

Row = dict[str, Any]
SIDES = st.sampled_from([lk, lance])
LAGS = st.booleans()
BOUNDS = st.integers(0, 60)
COUNTS = st.integers(0, 4)
TYPES = st.sampled_from([pa.int32(), pa.int64()])  # all that the reference casts to and fro


@dataclass(frozen=True)
class State:
    """One version: its rows by key, its columns, its config."""

    rows: dict[int, Row] = field(default_factory=dict)
    columns: tuple[str, ...] = ("k", "v")
    config: dict[str, str] = field(default_factory=dict)

    def having(self, rows: dict[int, Row]) -> State:
        return replace(
            self, rows={k: {c: row.get(c) for c in self.columns} for k, row in rows.items()}
        )


def state_of(handle: Any) -> State:
    table = handle.to_table()
    rows = {row["k"]: row for row in table.to_pylist()}
    assert len(rows) == table.num_rows == handle.count_rows(), "a key occurs twice"
    return State(rows, tuple(table.column_names), dict(handle.config()))


def table_of(rows: dict[int, Row]) -> pa.Table:
    values = [row.get("v") for row in rows.values()]
    return pa.table({"k": list(rows), "v": values}, schema=pa.schema(list(BASE.values())))


class Machine(RuleBasedStateMachine):
    """A dataset on disk, and what it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine"))
        self.path = str(self.folder / "d")
        self.lines: dict[str | None, dict[int, State]] = {}
        self.tags: dict[str, tuple[str | None, int]] = {}
        self.parents: dict[str, str | None] = {}
        self.lagging: dict[str, Any] = {}
        self.next_key = 0
        self.names = 0

    def teardown(self) -> None:
        if self.lines:
            for side in (lk, lance):
                self.check_everything(side)
        shutil.rmtree(self.folder)

    def check_everything(self, side: Any) -> None:
        root = side.dataset(self.path)
        for branch, versions in self.lines.items():
            for version, state in versions.items():
                assert state_of(root.checkout_version((branch, version))) == state
        tags = {name: (tag["branch"], tag["version"]) for name, tag in root.tags.list().items()}
        assert tags == self.tags
        assert set(root.branches.list()) == set(self.lines) - {None}

    # ---- handles

    def handle(self, side: Any, branch: str | None, lag: bool) -> Any:
        """Return a fresh handle, or one of the same library that was opened earlier."""
        key = f"{side.__name__} {branch}"
        if lag and key in self.lagging:
            return self.lagging.pop(key)
        root = side.dataset(self.path)
        fresh = root if branch is None else root.checkout_version((branch, None))
        if key not in self.lagging:
            other = side.dataset(self.path)
            self.lagging[key] = other if branch is None else other.checkout_version((branch, None))
        return fresh

    def fresh_rows(self, count: int) -> dict[int, Row]:
        self.next_key += count
        keys = range(self.next_key - count, self.next_key)
        return {k: {"k": k, "v": f"v{k % 7}" if k % 5 else None} for k in keys}

    def change(
        self,
        branch: str | None,
        handle: Any,
        work: Callable[[Any], Any],
        candidates: Callable[[State, State], list[State]],
        reserved: int = 0,
    ) -> None:
        """Run a change; it is refused, or leaves what one of the candidates says.

        Where it is refused, it may have landed `reserved` versions, which change no rows.
        """
        line = self.lines[branch]
        version, latest = handle.version, max(line)
        read, before = line[version], line[latest]
        refused = False
        try:
            work(handle)
        except (OSError, ValueError, RuntimeError):
            if version == latest:  # only a handle that lags behind may meet a conflict
                raise
            refused = True
        now = self.handle(lk, branch, lag=False)
        if refused:
            assert latest <= now.version <= latest + reserved
            assert state_of(now) == before
            line[now.version] = before
            return
        found = state_of(now)
        assert found in candidates(read, before)
        for between in range(latest + 1, now.version):  # compaction commits twice
            assert state_of(now.checkout_version((branch, between))) == before
            line[between] = before
        if now.version == latest:
            assert found == before
        line[now.version] = found

    def branch(self, data: Any) -> str | None:
        return data.draw(st.sampled_from(sorted(self.lines, key=str)), label="branch")

    # ---- rules

    @initialize(side=SIDES)
    def create(self, side: Any) -> None:
        rows = self.fresh_rows(5)
        side.write_dataset(table_of(rows), self.path)
        self.lines[None] = {1: State().having(rows)}

    @rule(side=SIDES, lag=LAGS, count=COUNTS, data=st.data())
    def append(self, side: Any, lag: bool, count: int, data: Any) -> None:
        branch, rows = self.branch(data), self.fresh_rows(count)
        self.change(
            branch,
            self.handle(side, branch, lag),
            lambda ds: side.write_dataset(table_of(rows), ds, mode="append"),
            lambda read, now: [now.having(now.rows | rows)],
        )

    @rule(side=SIDES, count=COUNTS, data=st.data())
    def overwrite(self, side: Any, count: int, data: Any) -> None:
        branch, rows = self.branch(data), self.fresh_rows(count)
        self.change(
            branch,
            self.handle(side, branch, lag=False),
            lambda ds: side.write_dataset(table_of(rows), ds, mode="overwrite"),
            lambda read, now: [replace(now, columns=("k", "v")).having(rows)],
        )

    @rule(side=SIDES, lag=LAGS, bound=BOUNDS, data=st.data())
    def delete(self, side: Any, lag: bool, bound: int, data: Any) -> None:
        branch = self.branch(data)

        def kept(read: State, now: State) -> list[State]:
            anew = {k: row for k, row in now.rows.items() if k >= bound}
            as_read = {k: row for k, row in now.rows.items() if k >= bound or k not in read.rows}
            return [now.having(anew), now.having(as_read)]

        handle = self.handle(side, branch, lag)
        self.change(branch, handle, lambda ds: ds.delete(f"k < {bound}"), kept)

    @rule(side=SIDES, lag=LAGS, bound=BOUNDS, data=st.data())
    def update(self, side: Any, lag: bool, bound: int, data: Any) -> None:
        branch = self.branch(data)

        def changed(read: State, now: State) -> list[State]:
            new = {k: row | {"v": "new"} if k >= bound else row for k, row in now.rows.items()}
            as_read = {k: new[k] if k in read.rows else row for k, row in now.rows.items()}
            return [now.having(new), now.having(as_read)]

        handle = self.handle(side, branch, lag)
        self.change(
            branch, handle, lambda ds: ds.update({"v": "'new'"}, where=f"k >= {bound}"), changed
        )

    @rule(side=SIDES, lag=LAGS, count=COUNTS, data=st.data())
    def upsert(self, side: Any, lag: bool, count: int, data: Any) -> None:
        branch = self.branch(data)
        line = self.lines[branch]
        handle = self.handle(side, branch, lag)
        read, now = line[handle.version], line[max(line)]
        if not read.columns == now.columns == ("k", "v"):
            return
        # the reference inserts again what others appended since
        known = [k for k in now.rows if k in read.rows]
        source = {k: {"k": k, "v": "merged"} for k in known[:count]} | self.fresh_rows(count)

        def merge(ds: Any) -> None:
            builder = ds.merge_insert("k").when_matched_update_all()
            builder.when_not_matched_insert_all().execute(table_of(source))

        self.change(branch, handle, merge, lambda read, now: [now.having(now.rows | source)])

    @rule(side=SIDES, lag=LAGS, data=st.data())
    def compact(self, side: Any, lag: bool, data: Any) -> None:
        branch = self.branch(data)
        self.change(
            branch,
            self.handle(side, branch, lag),
            lambda ds: ds.optimize.compact_files(target_rows_per_fragment=50),
            lambda read, now: [now],
            reserved=1,
        )

    @rule(side=SIDES, lag=LAGS, data=st.data())
    def add_column(self, side: Any, lag: bool, data: Any) -> None:
        branch = self.branch(data)
        self.names += 1
        name = f"c{self.names}"

        def added(read: State, now: State) -> list[State]:
            rows = {k: row | {name: k * 2} for k, row in now.rows.items()}
            return [replace(now, columns=(*now.columns, name)).having(rows)]

        handle = self.handle(side, branch, lag)
        self.change(branch, handle, lambda ds: ds.add_columns({name: "nullif(k * 2, -1)"}), added)

    @rule(side=SIDES, lag=LAGS, data=st.data())
    def drop_column(self, side: Any, lag: bool, data: Any) -> None:
        branch = self.branch(data)
        handle = self.handle(side, branch, lag)
        name = handle.schema.names[-1]
        if name in ("k", "v"):
            return

        def dropped(read: State, now: State) -> list[State]:
            columns = tuple(c for c in now.columns if c != name)
            return [replace(now, columns=columns).having(now.rows)]

        self.change(branch, handle, lambda ds: ds.drop_columns([name]), dropped)

    @rule(side=SIDES, lag=LAGS, data=st.data())
    def rename_column(self, side: Any, lag: bool, data: Any) -> None:
        branch = self.branch(data)
        handle = self.handle(side, branch, lag)
        old = handle.schema.names[-1]
        if old in ("k", "v"):
            return
        self.names += 1
        new = f"c{self.names}"

        def renamed(read: State, now: State) -> list[State]:
            if old not in now.columns:
                return []
            rows = {k: row | {new: row[old]} for k, row in now.rows.items()}
            columns = tuple(new if c == old else c for c in now.columns)
            return [replace(now, columns=columns).having(rows)]

        self.change(
            branch, handle, lambda ds: ds.alter_columns({"path": old, "name": new}), renamed
        )

    @rule(side=SIDES, lag=LAGS, to=TYPES, data=st.data())
    def cast_column(self, side: Any, lag: bool, to: pa.DataType, data: Any) -> None:
        branch = self.branch(data)
        handle = self.handle(side, branch, lag)
        name = handle.schema.names[-1]
        if name in ("k", "v"):
            return
        self.change(
            branch,
            handle,
            lambda ds: ds.alter_columns({"path": name, "data_type": to}),
            lambda read, now: [now],
        )
        # an update of the reference over a cast loses the values of the column
        self.lagging.pop(f"lance {branch}", None)

    @rule(side=SIDES, lag=LAGS, key=st.sampled_from("ab"), data=st.data())
    def configure(self, side: Any, lag: bool, key: str, data: Any) -> None:
        branch = self.branch(data)
        self.names += 1
        value = str(self.names)
        self.change(
            branch,
            self.handle(side, branch, lag),
            lambda ds: ds.update_config({key: value}),
            lambda read, now: [replace(now, config=now.config | {key: value})],
        )

    @rule(side=SIDES, data=st.data())
    def restore(self, side: Any, data: Any) -> None:
        branch = self.branch(data)
        line = self.lines[branch]
        version = data.draw(st.sampled_from(sorted(line)), label="version")
        self.change(
            branch,
            self.handle(side, branch, lag=False),
            lambda ds: ds.checkout_version((branch, version)).restore(),
            lambda read, now: [line[version]],
        )

    @rule(side=SIDES, data=st.data())
    def tag(self, side: Any, data: Any) -> None:
        branch = self.branch(data)
        version = data.draw(st.sampled_from(sorted(self.lines[branch])), label="version")
        name = data.draw(st.sampled_from(["s", "t"]), label="name")
        tags = side.dataset(self.path).tags
        (tags.update if name in self.tags else tags.create)(name, (branch, version))
        self.tags[name] = (branch, version)

    @precondition(lambda self: self.tags)
    @rule(side=SIDES)
    def delete_tag(self, side: Any) -> None:
        name, _ = self.tags.popitem()
        side.dataset(self.path).tags.delete(name)

    @precondition(lambda self: len(self.lines) < 3)
    @rule(side=SIDES, data=st.data())
    def fork(self, side: Any, data: Any) -> None:
        branch = self.branch(data)
        version = data.draw(st.sampled_from(sorted(self.lines[branch])), label="version")
        self.names += 1
        name = f"b{self.names}"
        self.handle(side, branch, lag=False).create_branch(name, (branch, version))
        self.lines[name] = {version: self.lines[branch][version]}
        self.parents[name] = branch

    @precondition(lambda self: self.unused_branches())
    @rule(side=SIDES, data=st.data())
    def delete_branch(self, side: Any, data: Any) -> None:
        name = data.draw(st.sampled_from(self.unused_branches()), label="branch")
        side.dataset(self.path).branches.delete(name)
        del self.lines[name], self.parents[name]
        for library in (lk, lance):
            self.lagging.pop(f"{library.__name__} {name}", None)

    def unused_branches(self) -> list[str]:
        """Return the branches that no other and no tag needs."""
        used = {*self.parents.values(), *(branch for branch, _ in self.tags.values())}
        return sorted(set(self.parents) - used)

    @invariant()
    def both_read_the_newest(self) -> None:
        for branch, line in self.lines.items():
            for side in (lk, lance):
                root = side.dataset(self.path)
                at = root if branch is None else root.checkout_version((branch, None))
                assert (at.version, state_of(at)) == (max(line), line[max(line)])


@pytest.mark.torture
@pytest.mark.parametrize("remembering", [nullcontext, all_remembered])
def test_any_order_of_operations(whole: bool, remembering: Any) -> None:
    with remembering():
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=200 if whole else 6,
                stateful_step_count=40 if whole else 15,
                deadline=None,
                derandomize=not whole,
                suppress_health_check=list(HealthCheck),
            ),
        )
