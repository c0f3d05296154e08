"""Several writers on one table, and whether what they left is one line of whole changes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lancekit as lk

__all__ = ["OPERATIONS", "Entry", "check_history", "read_logs"]

#: by operation: how often it is chosen
OPERATIONS = {
    "append": 5,
    "upsert": 6,
    "delete": 3,
    "update": 2,
    "compact": 1,
    "configure": 1,
    "tag": 1,
}

Rows = dict[int, str]


@dataclass
class Entry:
    """What a worker said of one operation; `version` is ``None`` if it did not see the end."""

    name: str
    kind: str
    keys: frozenset[int]
    version: int | None = None
    failed: str = ""

    def explains(self, old: Rows, new: Rows) -> bool:
        """Return whether this operation, whole, makes one version of the other."""
        added = {k for k in new if k not in old}
        removed = {k for k in old if k not in new}
        changed = {k for k in new if k in old and new[k] != old[k]}
        written = added | changed
        if not all(new[key] == self.name for key in written):
            return False
        match self.kind:
            case "append":
                return added == self.keys and not (changed or removed)
            case "upsert":
                return written == self.keys and not removed
            case "delete":
                return removed <= self.keys and not written
            case "update":
                return changed <= self.keys and not (added or removed)
            case _:
                return not (written or removed)


@dataclass
class Logs:
    """All that workers said, and how often what failed."""

    entries: dict[str, Entry] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)


def read_logs(folder: Path) -> Logs:
    """Read the logs of all workers; a line that a kill cut short counts as not said."""
    logs = Logs()
    for file in sorted(folder.glob("*.log")):
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue
            said = json.loads(line)
            if "begin" in said:
                name = f"{file.stem}:{said['begin']}"
                entry = Entry(said["begin"], said["kind"], frozenset(said["keys"]))
                assert name not in logs.entries
                logs.entries[name] = entry
            elif "done" in said:
                logs.entries[f"{file.stem}:{said['done']}"].version = said["version"]
            else:
                logs.entries[f"{file.stem}:{said['failed']}"].failed = said["text"]
                logs.failures[f"{file.stem} {said['error']}: {said['text'][:80]}"] += 1
    return logs


def rows_of(handle: Any) -> Rows:
    """Return the rows of a version; no key may occur twice."""
    table = handle.to_table()
    rows = dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))
    assert len(rows) == table.num_rows, f"version {handle.version} holds a key twice"
    return rows


def check_history(path: str, logs: Logs) -> dict[str, int]:
    """Walk through all versions: each is one operation, and each that was done is there.

    Returns
    -------
    dict
        How many versions there are, and by how many operations.
    """
    ds = lk.dataset(path)
    versions = [version["version"] for version in ds.versions()]
    assert versions == list(range(1, len(versions) + 1)), "the history has gaps"
    claims: dict[int, list[Entry]] = defaultdict(list)
    unfinished = []
    for entry in logs.entries.values():
        if entry.version is None:
            unfinished.append(entry)
        else:
            claims[entry.version].append(entry)
    old: Rows = rows_of(ds.checkout_version(1))
    uuids = {ds.read_transaction(1).uuid}
    explained: Counter[str] = Counter()
    for version in versions[1:]:
        at = ds.checkout_version(version)
        new = rows_of(at)
        transaction = ds.read_transaction(version)
        assert transaction is not None
        assert transaction.uuid not in uuids, "a transaction landed twice"
        uuids.add(transaction.uuid)
        found = [e for e in [*claims[version], *unfinished] if e.explains(old, new)]
        assert found or old == new, (version, type(transaction.operation).__name__)
        for entry in claims[version]:
            must = entry.kind in {"append", "upsert"}
            assert entry in found or not must, f"{entry} did not make version {version}"
        explained[found[0].kind if found else "more commits"] += 1
        old = new
    done = [e for e in logs.entries.values() if e.kind in {"append", "upsert"} and e.version]
    assert all(entry.version in set(versions) for entry in done)
    return {"versions": len(versions), "rows": len(old), **explained}
