"""Which releases read and write what lancekit leaves on disk: `docs/compatibility.md`.

``python -m tests.support.compatibility`` asks the releases that are set up (`make releases`), keeps
their answers in `tests/data/compatibility.json`, and writes the page.  Tests compare both.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

import lancekit as lk
from lancekit.errors import LancekitError
from tests.file.nested import assert_same_nested
from tests.support.disk_features import FEATURES, Feature
from tests.support.releases import RELEASES, Release, ReleaseError, interpreter

__all__ = ["ANSWERS", "PAGE", "TRIED", "Answer", "ask", "document", "key"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
ANSWERS = ROOT / "tests" / "data" / "compatibility.json"

TRIED = ("0.30.0", "1.0.4", "2.0.1", "4.0.0", "9.0.1", "14.0.2")

#: "yes", "no" (refused, or it cannot), "wrong" (another result, and no error): reading, writing
Answer = list[str]

_OPEN = """
uri, main, version = arguments["uri"], arguments["main"], arguments["version"]
reading = arguments["reading"]
ds = OPENED
"""
_TABLE = """
table = ds.to_table(columns=arguments["columns"])
"""
_BLOBS = """
try:
    files = ds.take_blobs("v", indices=[3, 7, 39])
except TypeError:  # of old
    files = ds.take_blobs([3, 7, 39], "v")
table = pa.table({"v": pa.array([file.readall() for file in files], pa.large_binary())})
"""
_KEEP = """
with pa.ipc.new_file(arguments["out"], table.schema) as writer:
    writer.write_table(table)
"""


def key(feature: Feature) -> str:
    return f"{feature.group}: {feature.name}"


def _rows(ds: lk.LanceDataset) -> pa.Table:
    return ds.to_table(blob_handling="all_binary").sort_by("k")


def _equal(found: pa.Table, expected: pa.Table) -> bool:
    try:
        assert found.column_names == expected.column_names
        for name in expected.column_names:
            assert_same_nested(found[name], expected[name].combine_chunks(), name)
    except (AssertionError, pa.ArrowInvalid):
        return False
    return True


class _Try:
    """A table of a feature, for one release."""

    def __init__(self, feature: Feature, release: Release, folder: Path) -> None:
        self.feature, self.release, self.folder = feature, release, folder
        self.ds = feature.make(folder)
        assert feature.there(self.ds), f"{key(feature)}: not in the table that was written"
        branch = self.ds.branch not in {None, "main"}
        self.main = str(folder / "t")
        self.where = {
            "uri": self.main if branch else str(self.ds.uri),
            "main": self.main,
            "version": self.ds.version,
        }

    def _run(self, program: str, **arguments: object) -> None:
        source = _OPEN.replace("OPENED", self.feature.opened) + program
        self.release("program", source=source, arguments=self.where | arguments)

    def read(self) -> str:
        out = self.folder / "out.arrow"
        columns = self.feature.columns
        try:
            read = _BLOBS if self.feature.blobs else _TABLE
            self._run(read + _KEEP, out=str(out), columns=columns, reading=True)
        except ReleaseError:
            return "no"
        found = pa.ipc.open_file(out).read_all()
        if self.feature.blobs:
            blobs = self.ds.to_table(columns=["v"], blob_handling="all_binary")["v"]
            expected = pa.table({"v": blobs.take([3, 7, 39])})
        else:
            expected = self.ds.to_table(columns=None if columns is None else list(columns))
        return "yes" if _equal(found, expected) else "wrong"

    def write(self) -> str:
        ds = lk.dataset(self.main) if self.feature.name == "detached versions" else self.ds
        before = _rows(ds)
        keys = pa.array([90_001, 90_002, 90_003])
        more = before.slice(0, 3).set_column(0, before.schema.field(0), keys)
        rows = self.folder / "rows.arrow"
        given = self.feature.writable(more)
        with pa.ipc.new_file(rows, given.schema) as writer:
            writer.write_table(given)
        try:
            self._run(self.feature.change, rows=str(rows), reading=False)
        except ReleaseError:
            return "no"
        kept = before.filter(pa.array(before["k"].to_numpy() != 1))
        try:
            ds.checkout_latest()
            ds.validate(deep=True)
            fine = _equal(_rows(ds), pa.concat_tables([kept, more])) and self.feature.there(ds)
        except LancekitError:
            fine = False
        return "yes" if fine else "wrong"


def ask(release: Release, features: Sequence[Feature]) -> Iterator[tuple[str, Answer]]:
    """Yield what a release makes of features."""
    for feature in features:
        with tempfile.TemporaryDirectory() as folder:
            one = _Try(feature, release, Path(folder))
            read = one.read()
            yield key(feature), [read, one.write() if read == "yes" else read]


def _oldest(answers: dict[str, Answer], which: int) -> str:
    """Return the oldest release from which on all that were tried can, and what is before it."""
    said = [answers[release][which] for release in TRIED]
    can = len(said)
    while can and said[can - 1] == "yes":
        can -= 1
    text = TRIED[can] if can < len(TRIED) else "none"
    others = [f"{TRIED[i]} too" for i in range(can) if said[i] == "yes"]
    others += [f"{TRIED[i]}: wrong" for i in range(can) if said[i] == "wrong"]
    return f"{text} ({', '.join(others)})" if others else text


def document() -> str:
    """Return the page."""
    answers = json.loads(ANSWERS.read_text())
    lines = [_HEAD]
    group = ""
    for feature in FEATURES:
        if feature.group != group:
            group = feature.group
            lines += ["", f"## {group}", "", "| What | Read from | Written from |", "|-|-|-|"]
        said = answers[key(feature)]
        lines.append(f"| {feature.name} | {_oldest(said, 0)} | {_oldest(said, 1)} |")
    return "\n".join(lines) + "\n"


_HEAD = f"""\
# Which releases read what lancekit writes

The tables list features of the tables and files that lancekit writes. For each feature they name
the oldest release of pylance from which on all tested releases succeed:

- **Read from**: the release reads a table of lancekit's with this feature, to the last bit.
- **Written from**: the release appends rows to the table and deletes a row. lancekit then finds all
  rows, and the feature is still there.

Tested releases: {", ".join(TRIED)}.
An older release raises an error. If it returns another result without an error, the table says
"wrong" in brackets.

0.16.0 opens the oldest version of a table as its newest, unless the manifests are named by their
numbers (`enable_v2_manifest_paths=False`).

In the other direction, lancekit reads all files that releases from 0.16.0 on wrote in storage
versions 2.0, 2.1 and 2.2. `make torture` compares them: {len(RELEASES)} releases write every type
in every pattern of nulls and values. [Data
files in detail](reference/files-details.md#files-of-other-releases) lists the peculiarities of some
releases.

| Storage version | No longer called unstable from | `"stable"` selects it from |
|-|-|-|
| 2.0 | 0.16.0 | 0.16.0 |
| 2.1 | 0.38.1 | 6.0.0 |
| 2.2 | 3.0.0 | 12.0.0 |

pylance 14 writes some tables that older releases do not open. lancekit reads and changes them:

| What | Flag | 4.0.0, 9.0.1 | 14.0.2 |
|-|-|-|-|
| blobs of both versions | 256 | refuse | only reads, appends and deletes |
| row ids and row versions in columns of data files | 2048 | an internal error | reads and writes |
| managed blobs | 16384 | refuse | reads and writes |

After lancekit has compacted all fragments with such columns, older releases open the table again.
Then 14.0.2 also changes tables with blobs of both versions in every way.

This page is generated from `tests/data/compatibility.json`.
`python -m tests.support.compatibility` measures these data, and `make torture` checks them."""


def main() -> None:
    """Ask all releases that are set up, and write the page."""
    stored = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    answers: dict[str, dict[str, Answer]] = {key(f): stored.get(key(f), {}) for f in FEATURES}
    for name in TRIED:
        if interpreter(name) is None:
            print(f"{name} is not set up: its old answers stay")
            continue
        with Release(name) as release:
            for feature, answer in ask(release, FEATURES):
                answers[feature][name] = answer
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")
    PAGE.write_text(document())


if __name__ == "__main__":
    main()
