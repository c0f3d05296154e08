"""Compare two records, and tell what differs by kind, with how to see it again."""

from __future__ import annotations

import difflib
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Difference", "differences", "report"]

#: KiB below which peaks do not count, and by which share they may differ
_FLOOR, _SHARE = 512, 0.10
_EXAMPLES, _LINES, _WIDTH = 3, 14, 200
#: facets whose difference means that the tables differ from then on
_STATE = ("files", "manifest")


@dataclass(frozen=True)
class Difference:
    """One facet of one call that differs; `follows` if the tables differed before."""

    kind: str
    scene: int
    call: int
    what: str
    old: str
    new: str
    follows: bool


def _read(path: Path) -> dict[tuple[int, int], dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        records = map(json.loads, lines)
        return {(record["scene"], record["call"]): record for record in records}


def differences(old: Path, new: Path) -> Iterator[Difference]:
    """Yield what differs, call by call."""
    olds, news = _read(old), _read(new)
    apart: set[int] = set()
    for place in sorted({*olds, *news}):
        one, other = olds.get(place), news.get(place)
        if one is None or other is None:
            yield Difference("call is missing", *place, "", str(one), str(other), follows=False)
            continue
        scene = place[0]
        found = list(_of_call(one, other))
        for kind, before, after in found:
            yield Difference(kind, *place, one["what"], before, after, scene in apart)
        if any(kind.startswith(_STATE) for kind, _, _ in found):
            apart.add(scene)


def _of_call(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if one["what"] != other["what"]:
        yield "draws", one["what"], other["what"]
    before, after = one["facets"], other["facets"]
    outcomes = [_class_of(facets) for facets in (before, after)]
    if outcomes[0] != outcomes[1]:
        texts = [facets.get("error", facets.get("result", "")) for facets in (before, after)]
        yield f"outcome: {outcomes[0]} is now {outcomes[1]}", *texts
    elif before.get("error") != after.get("error"):
        yield f"error text: {outcomes[0]}", before["error"], after["error"]
    elif before.get("result") != after.get("result"):
        yield (
            f"result of {one['what'].partition('(')[0]}",
            before.get("result", ""),
            after.get("result", ""),
        )
    for name in ("warnings", "manifest", "files", "requests", "opened"):
        if before.get(name) != after.get(name):
            yield name, before.get(name, ""), after.get(name, "")
    peaks = one["peak"], other["peak"]
    if max(peaks) > _FLOOR and abs(peaks[0] - peaks[1]) > _SHARE * max(peaks):
        yield "peak memory", *(f"{peak:,.0f} KiB" for peak in peaks)


def _class_of(facets: dict[str, str]) -> str:
    error = facets.get("error")
    return re.split(r"\W", error, maxsplit=1)[0] if error else "a result"


def report(found: Sequence[Difference], seed: int) -> str:
    """Return differences by kind, those that do not follow from others first."""
    kinds: dict[tuple[bool, str], list[Difference]] = defaultdict(list)
    for one in found:
        kinds[one.follows, one.kind].append(one)
    lines = []
    for follows, kind in sorted(kinds, key=lambda key: (key[0], -len(kinds[key]))):
        group = kinds[follows, kind]
        after = ", after the tables differed" if follows else ""
        lines.append(f"\n== {kind}{after}: {len(group)}")
        for one in group[: 1 if follows else _EXAMPLES]:
            again = f"--seed {seed} --scenes {one.scene}:{one.scene + 1}"
            lines.append(f"  {again}, call {one.call}: {one.what[:_WIDTH]}")
            lines += [f"      {line[:_WIDTH]}" for line in _difference(one)]
    lines.append(
        f"\n{len(found)} differences, {sum(not one.follows for one in found)} on their own"
    )
    return "\n".join(lines)


def _difference(one: Difference) -> list[str]:
    lines = list(difflib.unified_diff(one.old.split("\n"), one.new.split("\n"), lineterm="", n=0))
    kept = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return [*kept[:_LINES], *(["..."] if len(kept) > _LINES else [])]
