"""One dataset for each way of doing things: every step is done in all, and in the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from hypothesis import strategies as st

import lancekit as lk
from tests.support import plain_model as model
from tests.support.operations_table import OPERATIONS
from tests.support.plain_model import Counts, Refused, State
from tests.support.plain_values import SCHEMA, Draw, table
from tests.support.steps import Hand, Past, Step

__all__ = ["Differs", "Side", "Way", "begin", "draw_step", "pylance_fails"]

#: what pylance alone refuses; `listed_differences` says so
FAILS_THERE = [
    frozenset({"matched delete", "by source"}),
    frozenset({"rewrite_columns", "no rows"}),
]


#: a fragment that pylance left without files, and cannot read
NO_FILE = "does not contain any data"


class Differs(Exception):
    """pylance did what `listed_differences` says, so that the sides are no longer equal."""


def pylance_fails(step: Step) -> bool:
    return any(traits <= step.traits for traits in FAILS_THERE)


@dataclass(frozen=True)
class Way:
    """A library, lancekit's options, and the form in which rows are handed over."""

    name: str
    library: Any = lk
    options: Mapping[str, Any] = field(default_factory=dict)
    rows: Callable[[pa.Table], Any] = lambda data: data
    #: whether rows that are handed over keep their order
    ordered: bool = True


@dataclass
class Side:
    """A dataset that is changed one way, its newest version in the model, and all others."""

    way: Way
    path: Path
    state: State
    past: dict[int, State]
    stable: bool

    @property
    def hand(self) -> Hand:
        return Hand(self.way.library, str(self.path), self.way.rows, self.way.ordered)

    def copy(self, way: Way) -> Side:
        """Return a copy of the dataset's folder that is changed another way."""
        path = self.path.with_name(way.name)
        shutil.copytree(self.path, path)
        marks = way.library is lance
        past = {v: replace(state, marks_added=marks) for v, state in self.past.items()}
        return Side(way, path, past[self.state.version], past, self.stable)

    def do(self, step: Step) -> Mapping[str, int] | None:
        """Do a step; it is refused, or makes what the model says.  Return its counts."""
        try:
            expected, counts = step.means(self.state, self.past)
        except Refused:
            self._refuses(step)
            return None
        try:
            return self._do(step, expected, counts)
        except OSError as error:
            if self.way.library is lance and NO_FILE in str(error):
                raise Differs from error
            raise

    def _do(self, step: Step, expected: State, counts: Counts | None) -> Mapping[str, int] | None:
        with lk.options(**self.way.options):
            found = step.run(self.hand)
        if counts is not None:
            assert found is not None
            assert {key: found[key] for key in counts} == counts
        version = self.hand.open().version
        if step.versions is None:
            self.past |= dict.fromkeys(range(self.state.version + 1, version), self.state)
        else:
            assert version == self.state.version + step.versions
        expected = replace(expected, version=version)
        ordered = step.ordered and self.way.ordered
        self.state = self.past[version] = self.check(expected, ordered=ordered)
        if step.keeps is not None:
            self.past = {v: self.past[v] for v in sorted(self.past)[-step.keeps :]}
            for library in (lk, lance):
                there = [v["version"] for v in library.dataset(str(self.path)).versions()]
                assert there == sorted(self.past)
        return found

    def _refuses(self, step: Step) -> None:
        try:
            with lk.options(**self.way.options):
                step.run(self.hand)
        except Exception:  # whichever error it is: its class has tests of its own
            self.check(self.state, ordered=True)
            return
        if self.way.library is lance and "no rows" in step.traits:
            raise Differs
        raise AssertionError("the model refuses this")

    def check(self, expected: State, *, ordered: bool) -> State:
        """Compare a version in both libraries with the model."""
        for library in (lk, lance):
            dataset = library.dataset(str(self.path), version=expected.version)
            assert dataset.schema.equals(expected.schema, check_metadata=True), dataset.schema
            assert dataset.count_rows() == len(expected.rows)
            found = model.rows_of(dataset)
            expected = model.adopt(expected, found, ordered=ordered, stable=self.stable)
            ordered = True  # both libraries have to read the same order
        return expected

    def check_past(self) -> None:
        newest = lk.dataset(str(self.path)).version
        assert newest == self.state.version == max(self.past)
        for state in self.past.values():
            self.check(replace(state, version=self._number(state)), ordered=True)

    def _number(self, state: State) -> int:
        return next(v for v, found in self.past.items() if found is state)


def begin(draw: Draw, folder: Path, *, stable: bool | None = None) -> Side:
    """Create a dataset by either library, as drawn."""
    library = draw(st.sampled_from([lk, lance]))
    file_version = draw(st.sampled_from([None, "2.1", "2.0"]))
    # files of version 2.0 hold no null structs
    schema = SCHEMA.remove(len(SCHEMA) - 1) if file_version == "2.0" else SCHEMA
    data = table(draw, schema)
    settings = {
        "max_rows_per_file": draw(st.sampled_from([2, 5, 1000])),
        "data_storage_version": file_version,
        "enable_stable_row_ids": draw(st.booleans()) if stable is None else stable,
    }
    path = folder / "base"
    library.write_dataset(data, str(path), **settings)
    state = model.create(data, marks_added=library is lance)
    way = Way("base", library)
    side = Side(way, path, state, {1: state}, settings["enable_stable_row_ids"])
    side.state = side.past[1] = side.check(state, ordered=True)
    return side


def draw_step(draw: Draw, names: list[str], state: State, past: Past) -> Step | None:
    """Draw an operation and its input; ``None`` if it cannot be done on this table."""
    name = draw(st.sampled_from(names))
    return OPERATIONS[name](draw, state, past)
