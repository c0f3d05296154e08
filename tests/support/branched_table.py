"""A table that both libraries change, fork, clone and clean up, with its model: no merges yet."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import hypothesis
import lance
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lancekit as lk
from tests.support import branch_steps as steps
from tests.support.branch_cases import MAIN, Line, check
from tests.support.branch_model import Node, Table, merge_bases
from tests.support.branch_steps import COLUMN_STEPS, ROW_STEPS, SIDES, Step

__all__ = ["BranchedTable", "note"]


def note(text: str) -> None:
    """Tell hypothesis of a step, unless a thread of lancekit's takes it."""
    with suppress(hypothesis.errors.InvalidArgument):
        hypothesis.note(text)


class BranchedTable(RuleBasedStateMachine):
    """A table with branches and a clone, and the graph of versions that it should be."""

    #: how rows of one side change
    row_steps: Sequence[Any] = ROW_STEPS
    #: whether each table has stable row ids
    is_stable = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="branches"))
        self.lines: dict[str, Line] = {}
        self.forks = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # ---- handles, and what is read

    def handle(self, side: Any, line: Line) -> Any:
        root = side.dataset(line.path)
        return root if line.branch == MAIN else root.checkout_version((line.branch, None))

    @property
    def branches(self) -> list[Line]:
        """All lines of the dataset itself."""
        return [line for line in self.lines.values() if line.path == self.lines[MAIN].path]

    def draw_line(self, data: Any, label: str = "branch") -> Line:
        return self.lines[data.draw(st.sampled_from(list(self.lines)), label=label)]

    def draw_version(self, data: Any, line: Line, *, after: int = 0) -> int | None:
        """Return a version, one whose forerunner is there with ``after=1``."""
        able = [version for version in line.nodes if version - after in line.nodes]
        return data.draw(st.sampled_from(able), label="version") if able else None

    def landed(self, line: Line, node: Node, *, upkeep: bool = False, least: int = 1) -> None:
        """Note the versions that a call put on top of a line."""
        version, last = self.handle(lk, line).version, line.last
        assert last + least <= version, "nothing was committed"
        assert upkeep or version <= last + 1, f"{version - last} commits"
        for between in range(last + 1, version):
            line.put(between, line.newest.follow(line.newest.table))
            node = line.newest.follow(node.table)
        if version > last:
            line.put(version, node)

    def unchanged(self, line: Line) -> None:
        ds = self.handle(lk, line)
        assert ds.version == line.last, "something was committed"
        check(ds, line.newest.table)

    @invariant()
    def both_read_the_newest(self) -> None:
        for line in self.lines.values():
            for side in (lance, lk):
                try:
                    ds = self.handle(side, line)
                    assert ds.version == line.last
                    check(ds, line.newest.table)
                except Exception as error:
                    error.add_note(f"{side.__name__} reads {line.name}")
                    raise

    # ---- changes of one side

    @initialize(side=SIDES, stable=st.booleans(), data=st.data())
    def create(self, side: Any, stable: bool, data: Any) -> None:
        stable |= self.is_stable
        table, rows = self.first_table(data)
        path = str(self.folder / "d")
        side.write_dataset(rows, path, enable_stable_row_ids=stable)
        note(f"{side.__name__}.write_dataset({rows.to_pylist()}, enable_stable_row_ids={stable})")
        self.lines[MAIN] = Line(MAIN, path)
        self.lines[MAIN].put(1, Node(table))

    def first_table(self, data: Any) -> tuple[Table, pa.Table]:
        return steps.first_table(data.draw)

    def draw_step(self, data: Any, kinds: Sequence[Any], line: Line) -> tuple[Any, Step] | None:
        side = data.draw(SIDES, label="library")
        draw_step = data.draw(st.sampled_from(kinds), label="step")
        found: Step | None = draw_step(data.draw, side, line.newest.table)
        return None if found is None else (side, found)

    def take(self, line: Line, side: Any, step: Step) -> None:
        note(f"{line.name}: {side.__name__} {step.name}")
        step.run(self.handle(side, line))
        node = line.newest.follow(step.change(line.newest.table))
        self.landed(line, node, upkeep=step.is_upkeep, least=0)

    def change(self, data: Any, kinds: Sequence[Any]) -> None:
        line = self.draw_line(data)
        found = self.draw_step(data, kinds, line)
        if found is not None:
            self.take(line, *found)

    @rule(data=st.data())
    def change_rows(self, data: Any) -> None:
        self.change(data, self.row_steps)

    @rule(data=st.data())
    def change_columns(self, data: Any) -> None:
        self.change(data, COLUMN_STEPS)

    @rule(data=st.data())
    def change_rows_of_all(self, data: Any) -> None:
        for line in self.lines.values():
            found = self.draw_step(data, self.row_steps, line)
            if found is not None:
                self.take(line, *found)

    @rule(data=st.data())
    def compact(self, data: Any) -> None:
        self.change(data, [steps.compact])

    @precondition(lambda self: len(self.branches) < 4)
    @rule(side=SIDES, data=st.data())
    def fork(self, side: Any, data: Any) -> None:
        names = [line.name for line in self.branches]
        parent = self.lines[data.draw(st.sampled_from(names), label="parent")]
        version = data.draw(st.sampled_from(sorted(parent.nodes)[-3:]), label="version")
        self.forks += 1
        name = f"b{self.forks}"
        note(f"{name} = fork of {parent.name}@{version} by {side.__name__}")
        self.handle(side, parent).create_branch(name, (parent.branch, version))
        self.lines[name] = self.forked(name, parent, version)

    @precondition(lambda self: "clone" not in self.lines)
    @rule(side=SIDES, data=st.data())
    def clone(self, side: Any, data: Any) -> None:
        source = self.draw_line(data)
        path = str(self.folder / "clone")
        # a cleanup does not know of clones
        self.handle(side, source).tags.create("cloned", (source.branch, source.last))
        note(f"clone = clone of {source.name}@{source.last} by {side.__name__}")
        self.handle(side, source).shallow_clone(path, (source.branch, source.last))
        line = self.forked("clone", source, source.last)
        line.path, line.branch, line.parent = path, MAIN, None
        line.nodes = {self.handle(lk, line).version: source.newest}
        self.lines["clone"] = line

    def forked(self, name: str, parent: Line, version: int) -> Line:
        node = parent.nodes[version]
        line = Line(name, parent.path, name, parent.name, node, {version: node})
        line.chain = parent.chain[: parent.chain.index(node) + 1]
        return line

    @rule(side=SIDES, unverified=st.booleans(), data=st.data())
    def clean_up(self, side: Any, unverified: bool, data: Any) -> None:
        line = self.draw_line(data)
        note(f"{line.name}: cleanup by {side.__name__}")
        self.handle(side, line).cleanup_old_versions(
            older_than=timedelta(0),
            delete_unverified=unverified,
            error_if_tagged_old_versions=False,
        )
        left = {entry["version"] for entry in self.handle(lk, line).versions()}
        assert line.last in left
        left -= line.broken.keys()
        assert left <= set(line.nodes)
        needed = self.merge_bases_there() if side is lk else []
        line.nodes = {version: line.nodes[version] for version in sorted(left)}
        assert self.are_there(needed), "the cleanup took a merge base"
        if side is lance:
            for other in self.lines.values():
                self.forget_broken(other)

    def forget_broken(self, line: Line) -> None:
        """Forget old versions of which pylance's cleanup removed files: nobody can read them.

        A branch begins with files of its parent.
        """
        for version in [version for version in line.nodes if version < line.last]:
            try:
                lance.dataset(line.path).checkout_version((line.branch, version)).to_table()
            except Exception as error:
                if "Not found" not in str(error):
                    raise
                note(f"{line.name}@{version} lost its files")
                line.broken[version] = line.nodes.pop(version)

    def merge_bases_there(self) -> list[Node]:
        pairs = combinations([line.newest for line in self.branches], 2)
        return [base for pair in pairs for base in merge_bases(*pair) if self.are_there([base])]

    def nodes(self) -> list[Node]:
        """Return all versions that are there."""
        return [node for line in self.lines.values() for node in line.nodes.values()]

    def are_there(self, nodes: Iterable[Node]) -> bool:
        there = {id(node) for node in self.nodes()}
        return all(id(node) in there for node in nodes)

    def is_cut_off(self, nodes: Iterable[Node]) -> bool:
        """Tell whether versions of a clone and of its source are among them, and nothing tells it.

        The clone's first commit says where it comes from.
        """
        clone = self.lines.get("clone")
        if clone is None or any(node is clone.fork for node in clone.nodes.values()):
            return False
        return self.has_clone(nodes)

    def has_clone(self, nodes: Iterable[Node]) -> bool:
        """Tell whether some versions are the clone's own, and others are not."""
        clone = self.lines.get("clone")
        own = [] if clone is None else clone.chain[clone.chain.index(clone.fork) + 1 :]
        return len({id(node) in set(map(id, own)) for node in nodes}) == 2

    @rule(data=st.data())
    def undo(self, data: Any) -> None:
        line = self.draw_line(data)
        old = line.nodes.get(line.last - 1)
        if old is not None:
            note(f"{line.name}: undo")
            with warnings.catch_warnings(action="ignore"):  # of an undo without changed rows
                self.handle(lk, line).undo()
            self.landed(line, line.newest.restored(old, line.chain))
