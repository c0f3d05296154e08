"""Tables written by one library and read by another, compared to the last bit.

`Written` is one case: a type, a pattern of nulls and all patterns of values, in one dataset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit.errors import LancekitError
from tests.file.nested import assert_same_nested
from tests.support.release_columns import KINDS, NULLS, PATTERNS, table
from tests.support.releases import Release, ReleaseError

__all__ = ["Found", "cases", "differences", "sweep_reading", "sweep_writing", "ways"]


@dataclass(frozen=True)
class Case:
    """A table to be written: what is in it, and with which random numbers."""

    kind: str
    nulls: str
    rows: int
    parts: int
    rows_per_file: int
    seed: int

    @property
    def fragments(self) -> int:
        return self.parts * -(-self.rows // self.rows_per_file)

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.nulls} null, {self.rows} rows, seed {self.seed}"


@dataclass
class Found:
    """What a sweep saw: how many columns were read, refused by the writer, and were wrong."""

    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    #: what a release that reads ours answered with an error
    unread: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [
            f"{self.equal} columns equal",
            f"{sum(self.refused.values())} refused by the writer",
        ]
        parts += [f"{sum(self.lost.values())} lost by the writer"]
        parts += [f"{sum(self.unread.values())} refused by the reader", f"{len(self.wrong)} wrong"]
        return ", ".join(parts)


def cases(seed: int, *, share: float = 1.0) -> Iterator[Case]:
    """Yield every type with every pattern of nulls, or a share of them."""
    rng = np.random.default_rng(seed)
    for kind, (_, weight) in KINDS.items():
        for nulls in NULLS:
            rows = max(5, int(rng.choice([7, 1000, 2500, 5000])) // weight)
            parts = int(rng.integers(1, 3))
            per_file = int(rng.choice([10**6, rows // 2 + 1]))
            case = Case(kind, nulls, rows, parts, per_file, int(rng.integers(2**31)))
            if rng.random() < share:
                yield case


def _store(part: pa.Table, path: Path) -> pa.Table:
    """Write an Arrow file, and return it as it is read, with extension types."""
    with pa.ipc.new_file(path, part.schema) as writer:
        writer.write_table(part)
    return pa.ipc.open_file(path).read_all()


def _load(path: Path) -> pa.Table:
    return pa.ipc.open_file(path).read_all()


def _load_stream(path: Path) -> pa.Table:
    return pa.ipc.open_stream(path.read_bytes()).read_all()


class _Tables:
    """The tables of a case, or one pattern of it, in Arrow files."""

    def __init__(self, case: Case, folder: Path, patterns: Sequence[str]) -> None:
        rng = np.random.default_rng(case.seed)
        made = [table(case.kind, case.nulls, case.rows, rng) for _ in range(case.parts)]
        self.files = [folder / f"{number}.arrow" for number in range(case.parts)]
        stored = [
            _store(part.select(["id", *patterns]), file)
            for part, file in zip(made, self.files, strict=True)
        ]
        self.whole = pa.concat_tables(stored)
        self.patterns = patterns


def differences(found: pa.Table, expected: pa.Table, note: str) -> dict[str, str]:
    """Return what is wrong, by column."""
    if found.column_names != expected.column_names:
        return {"": f"{note}: columns {found.column_names}"}
    wrong = {}
    for name in expected.column_names:
        column, whole = found[name], expected[name]
        try:
            whole = whole.combine_chunks()
        except pa.ArrowInvalid:  # the values of all parts are more than one dictionary has keys
            if column.type != whole.type:
                wrong[name] = f"{note}: {column.type}, not {whole.type}"
                continue
            column, whole = _plain(column), _plain(whole).combine_chunks()
        try:
            assert_same_nested(column, whole, note)
        except (AssertionError, pa.ArrowInvalid) as error:
            wrong[name] = str(error)
    return wrong


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column of dictionaries, as they are."""
    return pa.chunked_array([part.dictionary_decode() for part in column.chunks])


def _is_blob(one: pa.Field) -> bool:
    return b"lance-encoding:blob" in (one.metadata or {})


def ways(uri: Path, expected: pa.Table, seed: int) -> Iterator[tuple[str, pa.Table, pa.Table]]:
    """Yield what lancekit reads of a dataset in several ways, and what it should be."""
    rng = np.random.default_rng(seed)
    ds = lk.dataset(uri)
    binary: dict[str, Any] = {"blob_handling": "all_binary"}
    yield "whole", ds.to_table(**binary), expected
    rows = len(expected)
    picked = rng.integers(0, rows, 25)
    plain = [one.name for one in expected.schema if not _is_blob(one)]
    taken = ds.take(picked.tolist(), columns=plain)
    # row by row: Arrow would make one dictionary of all parts
    rest = expected.select(plain)
    yield "take", taken, pa.concat_tables([rest.slice(row, 1) for row in picked.tolist()])
    least = int(rng.integers(0, rows))
    some = ds.to_table(filter=f"id >= {least} AND id % 3 = 1", **binary)
    ids = expected["id"].to_numpy()
    yield "filter", some, expected.filter(pa.array((ids >= least) & (ids % 3 == 1)))
    name = str(rng.choice(expected.column_names[1:]))
    there = expected.filter(expected[name].is_valid())
    yield "nulls", ds.to_table(filter=f"`{name}` IS NOT NULL", **binary), there
    parts = [part.to_table(**binary) for part in reversed(ds.get_fragments())]
    yield "fragments", pa.concat_tables(parts[::-1]), expected
    start, count = least, int(rng.integers(1, 40))
    yield "range", ds.to_table(offset=start, limit=count, **binary), expected.slice(start, count)


def _look(case: Case, uri: Path, tables: _Tables) -> dict[str, str]:
    """Return what lancekit reads wrong, by column."""
    wrong: dict[str, str] = {}
    try:
        for note, found, expected in ways(uri, tables.whole, case.seed):
            wrong |= differences(found, expected, note)
    except LancekitError as error:
        wrong[""] = f"{type(error).__name__}: {error}"
    return wrong


def sweep_reading(release: Release, version: str, folder: Path, which: Iterator[Case]) -> Found:
    """Have a release write tables, and read them with lancekit."""
    found = Found()
    for number, case in enumerate(which):
        _one_written(release, version, folder / str(number), case, PATTERNS, found)
    return found


def _one_written(
    release: Release,
    version: str,
    folder: Path,
    case: Case,
    patterns: Sequence[str],
    found: Found,
) -> None:
    folder.mkdir()
    tables = _Tables(case, folder, patterns)
    uri = folder / "d"
    try:
        release(
            "write",
            tables=[str(file) for file in tables.files],
            uri=str(uri),
            version=version,
            rows_per_file=case.rows_per_file,
        )
    except ReleaseError as error:
        if len(patterns) > 1:
            for pattern in patterns:
                _one_written(release, version, folder / pattern, case, [pattern], found)
        elif case.fragments > 1:  # some cannot append dictionaries
            alone = replace(case, parts=1, rows_per_file=case.rows)
            _one_written(release, version, folder / "alone", alone, patterns, found)
        else:
            found.refused[f"{case.kind}: {str(error)[:150]}"] += 1
        return
    wrong = _look(case, uri, tables)
    if wrong and len(patterns) > 1 and "" in wrong:
        for pattern in patterns:
            _one_written(release, version, folder / pattern, case, [pattern], found)
        return
    found.equal += len(patterns) - len(wrong)
    for name, text in wrong.items():
        same = _reads_the_same(release, folder, uri, name, case)
        note = f"{release.release} {version}, {case.name}, {name}: {text}"
        if same is None:
            found.wrong.append(note)
        else:
            found.lost[f"{case.kind}, {case.nulls} null: {same}: {text[:120]}"] += 1


def _reads_the_same(release: Release, folder: Path, uri: Path, name: str, case: Case) -> str | None:
    """Return what the reference says of a column itself; ``None`` if it reads what was meant."""
    out = folder / "back.arrow"
    try:
        release("read", uri=str(uri), out=str(out), columns=[name] if name else None)
    except ReleaseError as error:
        return f"it cannot read it itself: {str(error)[:100]}"
    theirs = _load_stream(out)
    try:
        ours = lk.dataset(uri).to_table(columns=[name] if name else None)
    except LancekitError:
        return None
    return None if differences(ours, theirs, "") else "it reads the same"


def sweep_writing(
    readers: Sequence[Release], version: str, folder: Path, which: Iterator[Case]
) -> dict[str, Found]:
    """Write tables with lancekit, and have releases read them; the last is the newest."""
    found = {release.release: Found() for release in readers}
    for number, case in enumerate(which):
        if case.kind == "blob":  # shown as places; `compatibility` asks for the bytes
            continue
        place = folder / str(number)
        place.mkdir()
        tables = _Tables(case, place, PATTERNS)
        uri = place / "d"
        try:
            for k, file in enumerate(tables.files):
                lk.write_dataset(
                    _load(file),
                    uri,
                    mode="append" if k else "create",
                    max_rows_per_file=case.rows_per_file,
                    data_storage_version=version,
                    enable_v2_manifest_paths=version != "2.0",  # which 0.16 reads wrong
                )
        except LancekitError as error:
            for one in found.values():
                one.refused[f"{case.kind}: {type(error).__name__} {str(error)[:100]}"] += 1
            continue
        for release in readers:
            _one_read(release, version, place, case, tables, found[release.release], readers[-1])
    return found


def _one_read(
    release: Release,
    version: str,
    place: Path,
    case: Case,
    tables: _Tables,
    found: Found,
    newest: Release,
) -> None:
    out = place / f"{release.release}.arrow"
    wrong: dict[str, str] = {}
    unread: dict[str, str] = {}
    try:
        release("read", uri=str(place / "d"), out=str(out))
        wrong = differences(_load_stream(out), tables.whole, "whole")
    except ReleaseError:
        for name in tables.patterns:
            try:
                release("read", uri=str(place / "d"), out=str(out), columns=[name])
                wrong |= differences(_load_stream(out), tables.whole.select([name]), "alone")
            except ReleaseError as error:
                unread[name] = str(error)
    found.equal += len(tables.patterns) - len(wrong) - len(unread)
    for name, text in (wrong | unread).items():
        note = f"{release.release} reads {version}, {case.name}, {name}: {text[:150]}"
        if name and _is_its_own(release, newest, version, place, case, tables, name):
            found.lost[f"{note}: and so what the reference writes"] += 1
        elif name in unread:
            found.unread[f"{case.kind}, {case.nulls} null: {text[:150]}"] += 1
        else:
            found.wrong.append(note)


def _is_its_own(
    release: Release,
    newest: Release,
    version: str,
    place: Path,
    case: Case,
    tables: _Tables,
    name: str,
) -> bool:
    """Tell whether a release fails to read what it wrote itself, or what the newest did, too."""
    for writer in (release, newest):
        uri, out = str(place / f"{writer.release}-{release.release}-{name}"), place / "own.arrow"
        try:
            writer(
                "write",
                tables=[str(file) for file in tables.files],
                uri=uri,
                version=version,
                rows_per_file=case.rows_per_file,
            )
        except ReleaseError:
            continue
        try:
            release("read", uri=uri, out=str(out), columns=[name])
        except ReleaseError:
            return True
        if differences(_load_stream(out), tables.whole.select([name]), "own"):
            return True
    return False
