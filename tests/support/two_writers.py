"""What two writers do at the same time, and what becomes of rows by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lance

import lancekit as lk
from tests.support.crash_points import rows

__all__ = ["OURS", "THEIRS", "Rows", "Work", "land"]

Rows = frozenset[tuple[int, str]]


@dataclass(frozen=True)
class Work:
    """What a writer does, and what becomes of rows by it."""

    run: Callable[[Any], Any]
    effect: Callable[[Rows], Rows]


def set_v(found: Rows, value: str, *, where: Callable[[int], bool]) -> Rows:
    return frozenset((k, value if where(k) else v) for k, v in found)


def upsert(key: int, other: int) -> Callable[[Any], Any]:
    def run(ds: Any) -> None:
        merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows(key, other, v="merged"))

    return run


def upserted(key: int, other: int) -> Callable[[Rows], Rows]:
    new = {(key, "merged"), (other, "merged")}
    return lambda found: frozenset(row for row in found if row[0] not in (key, other)) | new


OURS: dict[str, Work] = {
    "append": Work(lambda ds: ds.insert(rows(50)), lambda found: found | {(50, "x")}),
    "delete": Work(
        lambda ds: ds.delete("k in (1, 6)"),
        lambda found: frozenset(row for row in found if row[0] not in (1, 6)),
    ),
    "merge": Work(upsert(4, 60), upserted(4, 60)),
    "update": Work(
        lambda ds: ds.update({"v": "'u'"}, where="k > 4"),
        lambda found: set_v(found, "u", where=lambda k: k > 4),
    ),
    "compact": Work(
        lambda ds: ds.optimize.compact_files(target_rows_per_fragment=100), lambda found: found
    ),
}

#: what the other writer does: something apart, on the same rows, on other rows of the same files
THEIRS: dict[str, Work] = {
    "append": Work(lambda ds: ds.insert(rows(70, v="t")), lambda found: found | {(70, "t")}),
    "delete the same": Work(
        lambda ds: ds.delete("k = 6"),
        lambda found: frozenset(row for row in found if row[0] != 6),
    ),
    "delete others": Work(
        lambda ds: ds.delete("k = 3"),
        lambda found: frozenset(row for row in found if row[0] != 3),
    ),
    "upsert the same": Work(upsert(4, 60), upserted(4, 60)),
    "update others": Work(
        lambda ds: ds.update({"v": "'t'"}, where="k = 3"),
        lambda found: set_v(found, "t", where=lambda k: k == 3),
    ),
    "compact": Work(
        lambda ds: ds.optimize.compact_files(target_rows_per_fragment=100), lambda found: found
    ),
}


def land(side: str, name: str, path: str) -> None:
    """Do what the other writer does, in a process of its own."""
    module = {"lancekit": lk, "lance": lance}[side]
    with lk.options(fsync=False):
        THEIRS[name].run(module.dataset(path))
