"""The differential run: two records of one checkout are equal, and faults are seen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.differential.__main__ import ROOT, recording, side
from tests.differential.compare import Difference, differences, report

SEED, SCENE = 3, 13
#: where a fault is put into a copy of the package: a file, a line of it, and what stands instead
FAULTS = {
    "a filter drops a row of nulls": (
        "_scan/fragment_rows.py",
        "    mask = predicate.mask(known)\n",
        "    mask = predicate.mask(known)\n"
        "    if known.num_columns:\n"
        "        kept = np.flatnonzero(mask)\n"
        "        nulls = [row for row in kept if not known[0][row].is_valid]\n"
        "        mask = pa.array(np.isin(np.arange(len(mask)), np.setdiff1d(kept, nulls[:1])))\n",
    ),
    "a plan opens one file more": (
        "_scan/fragments/reader.py",
        "            self._open[file_index] = reader\n",
        "            self._open[file_index] = reader\n"
        "            location.store.open(location.name)\n",
    ),
}


def record(package: Path, folder: Path, name: str, scenes: range) -> Path:
    out = folder / f"{name}.jsonl.gz"
    assert recording(side(str(package), folder / name), SEED, scenes, out).wait() == 0
    return out


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of one scene, by the code as it is."""
    return record(ROOT, tmp_path_factory.mktemp("usual"), "usual", range(SCENE, SCENE + 1))


def test_two_records_of_one_checkout_are_equal(usual: Path, tmp_path: Path) -> None:
    again = record(ROOT, tmp_path, "again", range(SCENE, SCENE + 1))
    found = list(differences(usual, again))
    assert not found, report(found, SEED)


@pytest.mark.torture
def test_records_of_all_kinds_of_scenes_are_equal(tmp_path: Path, whole: bool) -> None:
    if not whole:
        pytest.skip("only in a whole run: the test above has a scene")
    records = [record(ROOT, tmp_path, name, range(40)) for name in ("one", "other")]
    found = list(differences(*records))
    assert not found, report(found, SEED)


def seen(name: str, usual: Path, folder: Path) -> list[Difference]:
    """Record the scene by a copy of the package with a fault."""
    file, line, instead = FAULTS[name]
    shutil.copytree(ROOT / "lancekit", folder / "lancekit")
    place = folder / "lancekit" / file
    text = place.read_text()
    assert text.count(line) == 1, f"{file} has changed: put the fault where the work is done now"
    place.write_text(text.replace(line, instead))
    return list(differences(usual, record(folder, folder, "broken", range(SCENE, SCENE + 1))))


def test_a_filter_that_drops_a_row_of_nulls_is_seen(usual: Path, tmp_path: Path) -> None:
    found = seen("a filter drops a row of nulls", usual, tmp_path)
    (scan, *_) = [one for one in found if one.kind == "result of scanner.to_table"]
    assert scan.old.count("(None,") > scan.new.count("(None,")
    again = f"--seed {SEED} --scenes {SCENE}:{SCENE + 1}, call {scan.call}: scanner.to_table("
    assert again in report(found, SEED)


def test_a_plan_that_opens_one_file_more_is_seen(usual: Path, tmp_path: Path) -> None:
    found = seen("a plan opens one file more", usual, tmp_path)
    assert {one.kind for one in found} == {"opened", "requests"}, report(found, SEED)
    (first, *_) = [one for one in found if one.kind == "requests"]
    assert "open data/*.lance x" in report([first], SEED)


def test_a_revision_is_checked_out(tmp_path: Path) -> None:
    if subprocess.run(
        ["git", "-C", ROOT, "rev-parse"], capture_output=True, check=False
    ).returncode:
        pytest.skip("not a checkout of git")
    made = side("HEAD", tmp_path / "old")
    assert (made / "lancekit/__init__.py").is_file()
    assert (made / "tests").resolve() == ROOT / "tests"
