"""Every pair of changes that pylance can commit, by two stale writers, in pylance and in lancekit.

The later commit is made by the reference on one copy and by lancekit on another: outcome and
result have to be the same, except where `DIFFER` says otherwise. Short runs ask of two pairs of
five one order only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import pytest

from lancekit._commit.rules.table import RULES
from tests.support.conflict_page import DIFFERENCES
from tests.support.stale_handles import (
    CHANGES,
    Prepared,
    Stage,
    lancekit_commits,
    newest,
    prepare,
    reference_commits,
)

LANDED, RETRY, EXCLUDED, ERROR = "landed", "retryable", "incompatible", "error"

_ON_W = ("index on w", "index on w, another")
_METADATA = ("schema metadata a", "schema metadata b", "metadata of v", "metadata of w")
_CONFIG = ("config a", "config b", "config a deleted")

#: (theirs, mine): what the reference does, what lancekit does
DIFFER: dict[tuple[str, str], tuple[str, str]] = {
    ("cast of w", "append"): (LANDED, RETRY),
    **{
        (theirs, mine): (LANDED, RETRY)
        for theirs in ("cast of w", "w dropped and added", "drop of w")
        for mine in _ON_W
    },
    ("drop of w", "metadata of w"): (ERROR, EXCLUDED),
    ("w dropped and added", "metadata of w"): (RETRY, EXCLUDED),
    **{("config replaced", mine): (LANDED, EXCLUDED) for mine in _CONFIG},
    **{(theirs, "config replaced"): (LANDED, EXCLUDED) for theirs in _CONFIG},
    **{
        (theirs, mine): (LANDED, RETRY)
        for theirs in _METADATA
        for mine in ("rename of v", "drop of w", "v never null")
    },
    **{
        pair: (RETRY, LANDED)
        for index in _ON_W
        for replaced in ("w of 0 replaced", "w of 1 replaced")
        for pair in ((index, replaced), (replaced, index))
    },
    ("index on v", "v of 0 replaced"): (RETRY, LANDED),
    ("v of 0 replaced", "index on v"): (RETRY, LANDED),
}

#: with stable row ids the reference does not take fragments without them
_STABLE = [name for name in CHANGES if not name.startswith("compaction")][::3]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("addresses"))


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    changes = {name: CHANGES[name] for name in _STABLE}
    return prepare(tmp_path_factory.mktemp("ids"), changes, enable_stable_row_ids=True)


def _contents(path: Path) -> dict[str, Any]:
    """Return what a reader of the newest version sees."""
    ds, found = lance.dataset(path), newest(path)
    table = ds.to_table()
    return {
        "rows": sorted(map(repr, table.to_pylist())),
        "schema": table.schema,
        "metadata": (table.schema.metadata, [f.metadata for f in table.schema]),
        "config": ds.config(),
        "fragments": [(f.fragment_id, f.physical_rows) for f in ds.get_fragments()],
        "indices": sorted((i.name, str(i.uuid), list(i.fragment_ids)) for i in found.indices),
        "table metadata": found.manifest.table_metadata,
    }


def _look_up(path: Path) -> None:
    """Check that the reference finds through every index what a scan finds."""
    ds = lance.dataset(path)
    paths = {f.id: f.name for f in newest(path).manifest.schema.walk()}
    for name in {paths[id_] for index in newest(path).indices for id_ in index.fields}:
        values = ds.to_table(columns=[name])[name].to_pylist()
        numbers = [] if isinstance(values[0], str) else [5, 7]
        for value in {values[0], values[-1], *numbers} - {None}:
            found = ds.to_table(columns=[name], filter=f"{name} = {value!r}").num_rows
            assert found == values.count(value), (name, value)


def _kind(outcome: str) -> str:
    return outcome if re.fullmatch(r"\w+", outcome) else ERROR


def _asked(theirs: str, mine: str) -> bool:
    """Whether a short run has a pair in this order: of five pairs two, and of two orders one."""
    at, other = (list(CHANGES).index(name) for name in (theirs, mine))
    in_turn = (at + other) % 5 == (0 if at < other else 1)
    return (theirs, mine) in DIFFER or at == other or in_turn


def _meet(prepared: Prepared, folder: Path, theirs: str, *, whole: bool) -> None:
    stage = Stage(prepared, folder, theirs)
    for mine, change in prepared.changes.items():
        if not (whole or _asked(theirs, mine)):
            continue
        if len(change.theirs) > 1:
            continue  # two commits cannot be one side of a pair
        theirs_path, our_path = stage.copy(), stage.copy()
        reference = _kind(reference_commits(theirs_path, change.theirs[0], prepared.version))
        ours = _kind(lancekit_commits(our_path, change.mine[0], prepared.version))
        expected = DIFFER.get((theirs, mine), (reference, reference))
        assert (reference, ours) == expected, (theirs, mine)
        if ours != LANDED:
            continue
        if "index" in theirs or "index" in mine:
            _look_up(our_path)
        if reference == LANDED:
            assert _contents(our_path) == _contents(theirs_path), (theirs, mine)


@pytest.mark.torture
@pytest.mark.parametrize("theirs", CHANGES)
def test_the_later_one_meets_the_same(
    prepared: Prepared, tmp_path: Path, theirs: str, whole: bool
) -> None:
    _meet(prepared, tmp_path, theirs, whole=whole)


@pytest.mark.torture
@pytest.mark.parametrize("theirs", _STABLE)
def test_with_stable_row_ids_too(
    stable: Prepared, tmp_path: Path, theirs: str, whole: bool
) -> None:
    _meet(stable, tmp_path, theirs, whole=whole)


@pytest.mark.torture
def test_the_reference_meets_ours_as_its_own(
    prepared: Prepared, tmp_path: Path, whole: bool
) -> None:
    """What lancekit wrote first is judged by the reference as if it had written it."""
    step = 3 if whole else 5
    for number, (theirs, change) in enumerate(list(prepared.changes.items())[::step]):
        if len(change.theirs) > 1:
            continue
        stage = Stage(prepared, tmp_path / f"theirs {number}", theirs)
        ours = Stage(prepared, tmp_path / f"ours {number}", theirs, lancekit=True)
        for mine in list(prepared.changes.values())[::step]:
            if len(mine.theirs) > 1:
                continue
            one, other = stage.copy(), ours.copy()
            outcomes = [
                _kind(reference_commits(path, mine.theirs[0], prepared.version))
                for path in (one, other)
            ]
            assert outcomes[0] == outcomes[1], (theirs, mine)
            assert _contents(one) == _contents(other)


def test_every_difference_is_listed(prepared: Prepared) -> None:
    listed = {(d.mine, kind) for d in DIFFERENCES for kind in d.theirs}
    for theirs, mine in DIFFER:
        mine_kind = type(prepared.changes[mine].mine[0])
        kinds = {type(operation) for operation in prepared.changes[theirs].mine}
        assert any((mine_kind, kind) in listed for kind in kinds), (theirs, mine)
    assert all(kind in RULES[d.mine] for d in DIFFERENCES for kind in d.theirs)
