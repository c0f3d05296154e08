"""Any order of operations on branches, and what is asked of their history, against a model.

What the other machine does goes on here, by both libraries; in between, versions are compared,
merged, picked, reverted and undone, and old ones cleaned up.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

import lancekit as lk
from lancekit import errors
from lancekit.operations.lineage.merge_base import merge_base
from tests.operations.lineage.three_way_model import merged
from tests.system.test_state_machine import SIDES, Machine, State, state_of, table_of

WHOSE = st.sampled_from(["ours", "theirs"])
BY = st.sampled_from(["cell", "row"])
FORBIDDEN = "forbidden"

Ref = tuple[str | None, int]


class LineageMachine(Machine):
    """The other machine's table, and its history."""

    clones = 0

    @initialize(side=SIDES, stable=st.booleans())
    def create(self, side: Any, stable: bool) -> None:
        rows = self.fresh_rows(5)
        side.write_dataset(table_of(rows), self.path, enable_stable_row_ids=stable)
        self.lines[None] = {1: State().having(rows)}

    def version(self, data: Any, branch: str | None) -> int:
        return data.draw(st.sampled_from(sorted(self.lines[branch])), label="version")

    def state(self, ref: Ref) -> State:
        return self.lines[ref[0]][ref[1]]

    def land(self, branch: str | None, ds: Any, state: State) -> None:
        """Note what a call put on top of a branch: the rows of a state, and any config."""
        line = self.lines[branch]
        now = self.handle(lk, branch, lag=False)
        assert ds.version == now.version
        found = state_of(now)
        assert (found.rows, found.columns) == (state.rows, state.columns)
        if now.version > max(line):
            line[now.version] = found

    def unchanged(self, branch: str | None) -> None:
        line = self.lines[branch]
        now = self.handle(lk, branch, lag=False)
        assert (now.version, state_of(now)) == (max(line), line[max(line)])

    # ---- what is asked

    @rule(data=st.data())
    def compare_and_apply(self, data: Any) -> None:
        """A diff counts what the model counts, and makes of the one side the other."""
        (old, new) = ((branch, self.version(data, branch)) for branch in
                      (self.branch(data), self.branch(data)))  # fmt: skip
        root = lk.dataset(self.path)
        diff = root.checkout_version(new).diff(root.checkout_version(old))
        before, after = self.state(old), self.state(new)
        both = before.rows.keys() & after.rows.keys()
        assert diff.counts.inserted == len(after.rows.keys() - both)
        assert diff.counts.deleted == len(before.rows.keys() - both)
        if root.checkout_version(old).schema != root.checkout_version(new).schema:
            return  # changes of columns are not done anywhere else
        changed = [key for key in both if before.rows[key] != after.rows[key]]
        assert diff.counts.updated == len(changed)
        type(self).clones += 1
        place = self.folder / f"clone{self.clones}"
        clone = root.shallow_clone(place, old)
        diff.apply(clone)
        assert state_of(clone).rows == after.rows
        assert not any(clone.diff(root.checkout_version(new), on="k").counts[name]
                       for name in ("inserted", "deleted", "updated"))  # fmt: skip
        shutil.rmtree(place)

    # ---- what is put together

    def put_together(
        self, target: str | None, base: Ref, theirs: Ref, by: str, whose: str, work: Any
    ) -> None:
        """Do what is refused, or makes of three versions what the model makes of them."""
        ds = self.handle(lk, target, lag=False)
        ours = (target, ds.version)
        states = [self.state(ref) for ref in (base, theirs, ours)]
        schemas = [ds.checkout_version(ref).schema for ref in (base, theirs, ours)]
        if not schemas[0] == schemas[1] == schemas[2]:
            try:
                work(ds)
            except (errors.SchemaMismatchError, errors.InvalidArgumentError):
                self.unchanged(target)
            else:  # columns of one side alone: whatever has become of the rows
                self.lines[target][ds.version] = state_of(ds)
            return
        work(ds)
        expected = merged(*(state.rows for state in states), by, whose)
        self.land(target, ds, states[2].having(expected.rows))

    @precondition(lambda self: len(self.lines) > 1)
    @rule(by=BY, whose=WHOSE, data=st.data())
    def merge(self, by: str, whose: str, data: Any) -> None:
        source = data.draw(st.sampled_from(sorted(set(self.lines) - {None})), label="source")
        target = data.draw(st.sampled_from([b for b in self.lines if b != source]), label="target")
        root = lk.dataset(self.path)
        ends = [root.checkout_version((b, None))._snapshot for b in (source, target)]
        try:
            found = merge_base(*ends)
        except (errors.InvalidArgumentError, errors.VersionNotFoundError):
            return  # which they come from is gone
        base = (found.snapshot.branch, found.snapshot.version)
        theirs = (source, ends[0].version)
        if base[1] not in self.lines.get(base[0], {}):
            return

        def work(ds: Any) -> None:
            ds.branches.merge(source, by=by, conflicts=whose)
            once = ds.version
            ds.branches.merge(source, by=by, conflicts=whose)
            assert ds.version == once, "a merge lands once"

        self.put_together(target, base, theirs, by, whose, work)

    @rule(whose=WHOSE, data=st.data())
    def cherry_pick(self, whose: str, data: Any) -> None:
        source, target = self.branch(data), self.branch(data)
        version = self.version(data, source)
        if version - 1 in self.lines[source] and source is not None:
            self.put_together(
                target, (source, version - 1), (source, version), "cell", whose,
                lambda ds: ds.branches.cherry_pick(source, version, conflicts=whose),
            )  # fmt: skip

    @rule(whose=WHOSE, data=st.data())
    def revert(self, whose: str, data: Any) -> None:
        branch = self.branch(data)
        version = self.version(data, branch)
        if version - 1 in self.lines[branch]:
            self.put_together(
                branch, (branch, version), (branch, version - 1), "cell", whose,
                lambda ds: ds.revert(version, conflicts=whose),
            )  # fmt: skip

    @rule(data=st.data())
    def undo(self, data: Any) -> None:
        branch = self.branch(data)
        line = self.lines[branch]
        if max(line) - 1 in line:
            ds = self.handle(lk, branch, lag=False)
            before = line[max(line) - 1]
            ds.undo()
            line[ds.version] = before
            self.unchanged(branch)

    # ---- what is kept

    @rule(side=SIDES, data=st.data())
    def clean_up(self, side: Any, data: Any) -> None:
        """What tags and branches need stays, and so does all that can still be read."""
        branch = self.branch(data)
        line = self.lines[branch]
        ds = self.handle(side, branch, lag=False)
        ds.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
        left = {entry["version"] for entry in self.handle(lk, branch, lag=False).versions()}
        assert left <= set(line)
        needed = {max(line)} | {v for b, v in self.tags.values() if b == branch}
        needed |= {min(self.lines[name]) for name, of in self.parents.items()
                   if of == branch and min(self.lines[name]) in line}  # fmt: skip
        assert needed <= left
        self.lines[branch] = {version: line[version] for version in sorted(left)}
        for library in ("lancekit", "lance"):  # what they are at may be gone
            self.lagging.pop(f"{library} {branch}", None)

    @rule(data=st.data())
    def forbid(self, data: Any) -> None:
        """A constraint is kept by what lancekit writes, and said of what it does not meet."""
        branch = self.branch(data)
        ds = self.handle(lk, branch, lag=False)
        if not ds.constraints.list():
            ds.constraints.add("nothing forbidden", f"v <> '{FORBIDDEN}'")
            line = self.lines[branch]
            line[ds.version] = replace(line[max(line)], config=dict(ds.config()))
        before = self.lines[branch][ds.version]
        if before.rows:
            with pytest.raises(errors.ConstraintViolationError):
                ds.update({"v": f"'{FORBIDDEN}'"})
        self.unchanged(branch)
        assert all(found.holds for found in ds.constraints.run())


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore:Version .* had no constraint")  # what is taken back may be one
def test_any_order_of_what_is_asked_of_a_history(whole: bool) -> None:
    run_state_machine_as_test(
        LineageMachine,
        settings=settings(
            max_examples=200 if whole else 5,
            stateful_step_count=40 if whole else 20,
            deadline=None,
            derandomize=not whole,
            suppress_health_check=list(HealthCheck),
        ),
    )
