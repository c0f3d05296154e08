"""One table, changed in turns by lancekit and by several releases, beside a plain model."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.releases import NEWEST, OLDEST_KEPT, RELEASES, Release, ReleaseError, interpreter

#: the same program for all: ``lance`` is the one whose turn it is
STEPS = {
    "append": 'lance.write_dataset(rows, uri, mode="append")',
    "delete": "ds.delete(where)",
    "update": "ds.update({'v': \"'\" + text + \"'\"}, where=where)",
    "merge": 'ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()'
    ".execute(rows)",
    "compact": "ds.optimize.compact_files()",
}
#: by release: what goes wrong in a table with stable row ids, without any other release, too
WRONG_WITH_STABLE_IDS = {
    "0.30.0": {
        "merge",  # brings a key twice
        "update",  # leaves the old rows where row ids are no addresses, as after a compaction
        "compact",  # leaves too few row ids where rows were deleted, and panics on reading them
    }
}
SETUP = """
uri, where, text = arguments["uri"], arguments["where"], arguments["text"]
keys = pa.array(arguments["keys"], pa.int64())
rows = pa.table({"k": keys, "v": pa.array([text] * len(keys), pa.string())})
ds = lance.dataset(uri)
"""


def _expected(kind: str, model: dict[int, str], step: dict[str, Any], part: Any) -> dict[int, str]:
    match kind:
        case "append" | "merge":
            return model | dict.fromkeys(step["keys"], step["text"])
        case "delete":
            return {key: text for key, text in model.items() if not part(key)}
        case "update":
            return {key: step["text"] if part(key) else text for key, text in model.items()}
        case _:
            return model


def _turns(version: str, others: dict[str, Release], seed: int, steps: int, path: Path) -> None:
    draw = random.Random(seed)
    uri = str(path / "d")
    model = dict.fromkeys(range(200), "first")
    start = pa.table({"k": list(model), "v": list(model.values())})
    stable = draw.random() < 0.5
    lk.write_dataset(
        start, uri, data_storage_version=version, enable_stable_row_ids=stable,
        max_rows_per_file=70, enable_v2_manifest_paths=version != "2.0",
    )  # fmt: skip
    told = []
    for number in range(steps):
        who, kind = draw.choice(["lancekit", *others]), draw.choice(list(STEPS))
        if stable and kind in WRONG_WITH_STABLE_IDS.get(who, ()):
            who = "lancekit"
        modulus = draw.randint(3, 9)
        rest = draw.randrange(modulus)
        keys = draw.sample(range(400), draw.randint(1, 30))
        if kind == "append":
            keys = [key for key in keys if key not in model] or [1000 + number]
        step = {"uri": uri, "keys": keys, "text": f"{who} {number}"}
        step["where"] = f"k % {modulus} = {rest}"
        told.append(f"{who}: {kind} {step['where']}")
        source = SETUP + STEPS[kind]
        if who == "lancekit":
            exec(source, {"lance": lk, "pa": pa, "arguments": step})
        else:
            try:
                others[who]("program", source=source, arguments=step)
            except ReleaseError:
                if who in {NEWEST, OLDEST_KEPT}:
                    raise
                kind = "refused"  # old ones know few shapes of row ids; all stays as it was
        model = _expected(kind, model, step, lambda k, m=modulus, r=rest: k % m == r)
        table = lk.dataset(uri).to_table()
        found = dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))
        assert len(table) == len(found), f"seed {seed}: a key is twice after {told}"
        assert found == model, f"seed {seed}: {told}"
    lk.dataset(uri).validate(deep=True)
    read = SETUP + "result = ds.to_table().to_pydict()"
    for name, release in others.items():
        there = release("program", source=read, arguments=step)
        assert dict(zip(there["k"], there["v"], strict=True)) == model, f"{name}, seed {seed}"


@pytest.mark.torture
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_table_that_many_releases_change(
    release: Callable[[str], Release], tmp_path: Path, whole: bool, version: str
) -> None:
    names = [
        name
        for name, known in RELEASES.items()
        # 0.16 takes stable row ids for addresses: it deletes and merges other rows
        if name != "0.16.0"
        and version in known
        and interpreter(name)
        and (whole or name in {NEWEST, OLDEST_KEPT})
    ]
    for number in range(20 if whole else 1):
        seed = secrets.randbelow(2**31) if whole else 1
        folder = tmp_path / str(number)
        folder.mkdir()
        _turns(version, {name: release(name) for name in names}, seed, 40 if whole else 9, folder)
