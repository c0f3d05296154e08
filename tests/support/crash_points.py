"""What a dataset looks like from outside, and what on its disk belongs to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa

import lancekit as lk
from lancekit._format import names
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import load_snapshot
from tests.support.faults import Faults, injected

__all__ = ["Change", "Place", "State", "rows", "state_of"]

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), False, KEY), pa.field("v", pa.string())])


def rows(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, schema=SCHEMA)


@dataclass(frozen=True)
class Line:
    """The newest version of main, of a branch or of a clone."""

    version: int
    rows: tuple[str, ...]
    schema: str
    config: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class State:
    """All that a reader can see: rows, schema and config of each line, and the refs."""

    lines: tuple[tuple[str, Line], ...]
    tags: tuple[str, ...]

    @property
    def main(self) -> Line | None:
        return dict(self.lines).get("main")


def _line(handle: Any) -> Line:
    return Line(
        version=handle.version,
        rows=tuple(sorted(map(repr, handle.to_table().to_pylist()))),
        schema=str([(f.name, str(f.type)) for f in handle.schema]),
        config=tuple(sorted(handle.config().items())),
    )


def state_of(side: ModuleType, place: Place) -> State:
    """Read everything with one of the two libraries."""
    lines: dict[str, Line] = {}
    tags: list[str] = []
    for name, path in (("main", place.path), ("clone", place.clone)):
        try:
            opened = side.dataset(str(path))
        except ValueError:  # there is none
            continue
        lines[name] = _line(opened)
        for branch in opened.branches.list():
            lines[f"{name} {branch}"] = _line(opened.checkout_version((branch, None)))
        for tag, facts in opened.tags.list().items():
            rows_there = opened.checkout_version(tag).count_rows()
            shown = (facts["branch"], facts["version"], facts["metadata"], rows_there)
            tags.append(f"{name} {tag}: {shown}")
    return State(tuple(sorted(lines.items())), tuple(sorted(tags)))


Operation = Callable[[Any, "Place"], Any]


@dataclass(frozen=True)
class Change:
    """An operation, how many commits it makes, and how the dataset is prepared for it.

    The reference does not open a folder with both namings of manifests: `half_opens` says whether
    it opens what an interrupted change leaves.
    """

    run: Operation
    commits: int = 1
    prepare: Operation = lambda ds, place: None
    exists: bool = True
    half_opens: bool = True


@dataclass(frozen=True)
class Place:
    """A folder that is put back to the same dataset before each attempt."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "d"

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def _saved(self) -> Path:
        return self.folder / "saved"

    def prepare(self, change: Change) -> None:
        """Make a dataset with all that a crash could harm, and keep a copy of it."""
        if change.exists:
            ds = lk.write_dataset(rows(1, 2, 3, 4), self.path)
            ds.insert(rows(5, 6, 7, 8))
            ds.delete("k = 2")
            ds.tags.create("t", 1)
            branch = ds.create_branch("b", 2)
            branch.insert(rows(9))
            ds.create_branch("to/delete")
            ds.tags.create("u", ("b", 3))
            change.prepare(ds, self)
            shutil.copytree(self.path, self._saved)

    def attempt(self, change: Change, faults: Faults) -> None:
        """Put the dataset back, and run the change on stores that fail."""
        for old in (self.path, self.clone):
            shutil.rmtree(old, ignore_errors=True)
        if self._saved.exists():
            shutil.copytree(self._saved, self.path)
        fail_at, faults.fail_at = faults.fail_at, 0
        # one thread: the calls come in the same order each time
        with injected(faults), patch("os.sched_getaffinity", return_value={0}):
            ds = lk.dataset(self.path) if change.exists else None
            faults.calls.clear()
            faults.fail_at = fail_at
            change.run(ds, self)

    def states(self, change: Change) -> list[State]:
        """Return the states that an undisturbed run goes through."""
        before = state_of(lk, self)
        self.attempt(change, Faults())
        after = state_of(lk, self)
        between = []
        if before.main and after.main:
            steps = range(before.main.version + 1, after.main.version)
            between = [self._main_at(before, version) for version in steps]
        return [before, *between, after]

    def _main_at(self, before: State, version: int) -> State:
        main = _line(lk.dataset(self.path, version))
        return replace(before, lines=tuple((dict(before.lines) | {"main": main}).items()))

    def handles(self, side: ModuleType) -> Iterator[Any]:
        """Open every line, of the dataset and of its clone, at its newest version."""
        for path in (self.path, self.clone):
            if list(path.glob("_versions/*.manifest")):
                opened = side.dataset(str(path))
                yield opened
                for branch in opened.branches.list():
                    yield opened.checkout_version((branch, None))

    def garbage(self, side: ModuleType) -> set[str]:
        """Return the files that nothing needs, after a cleanup by one of the libraries."""
        with_limits = {"older_than": timedelta(0), "delete_unverified": True}
        for handle in self.handles(side):
            handle.cleanup_old_versions(**with_limits, error_if_tagged_old_versions=False)
        needed = set(self._needed())
        found = {
            name: file
            for path in (self.path, self.clone)
            for file in path.rglob("*")
            if file.is_file() and (name := str(file.relative_to(self.folder))) not in needed
        }
        passed_over = self._only_ours(found) if side is lance else set()
        return found.keys() - passed_over

    def _only_ours(self, files: dict[str, Path]) -> set[str]:
        """Return what the reference's cleanup passes over: references and unlisted branches."""
        if not files:
            return set()
        branches = [line.uri for handle in self.handles(lk) if (line := handle._location).branch]
        return {
            name
            for name, file in files.items()
            if (file.name.startswith(".tmp-") and "_refs" in file.parts)
            or ("tree" in file.parts and not any(map(file.is_relative_to, branches)))
        }

    def _needed(self) -> Iterator[str]:
        for path in (self.path, self.clone):
            if not list(path.glob("_versions/*.manifest")):
                continue
            opened = lk.dataset(path)
            for folder, known in ((names.TAGS, opened.tags), (names.BRANCHES, opened.branches)):
                quoted = (name.replace("/", "%2F") for name in known.list())
                yield from (f"{path.name}/{folder}/{name}.json" for name in quoted)
        for handle in self.handles(lk):
            yield from self._needed_by(handle._location)

    def _needed_by(self, line: Any) -> Iterator[str]:
        folder = Path(line.uri).relative_to(self.folder)
        yield f"{folder}/{names.VERSIONS}/{names.HINT}"
        detached = [int(path.name[1:-9]) for path in Path(line.uri).glob("_versions/d*.manifest")]
        for version in (*list_versions(line).versions, *detached):
            snapshot = load_snapshot(line, version)
            yield f"{folder}/{names.VERSIONS}/{snapshot.manifest_name}"
            yield f"{folder}/{names.TRANSACTIONS}/{snapshot.manifest.transaction_file}"
            for index in snapshot.indices:
                used = Path(line.uri) / names.INDICES / str(index.uuid)
                yield from (str(file.relative_to(self.folder)) for file in used.glob("*"))
            for fragment in snapshot.manifest.fragments:
                files = [snapshot.data_file(file) for file in fragment.files]
                deletion = snapshot.deletion_file(fragment)
                for file in [*files, *([deletion] if deletion else [])]:
                    yield str(Path(str(file)).relative_to(self.folder))
