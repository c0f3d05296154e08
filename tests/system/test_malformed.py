"""Damaged and hostile files: an error of lancekit or it opens; never a dead or a huge process."""

from __future__ import annotations

import json
import pickle
import random
import re
import shutil
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._format.manifest import BasePath, encode_manifest_file
from lancekit._format.names import parse_manifest_name
from tests.support import damage, hostile

ROOT = Path(__file__).parents[2]
DAMAGE_PAGE = ROOT / "docs" / "damage.md"


def run(module: str, *arguments: str) -> Any:
    """Run a program of the tests' support in a process of its own; it must not die."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.support.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    damage.make_datasets(folder / "datasets")
    (folder / "files").write_bytes(pickle.dumps(damage.collect(folder / "datasets")))
    return folder


#: kinds of files, and into how many shares their files are dealt: a whole run takes half an hour
SHARES = {"_versions": 4, "_transactions": 2, ".arrow .bin tags branches": 1}


@pytest.mark.torture
@pytest.mark.parametrize(
    ("kinds", "share"),
    [(kinds, f"{n}/{shares}") for kinds, shares in SHARES.items() for n in range(shares)],
)
def test_every_length_and_every_bit(corpus: Path, kinds: str, share: str, whole: bool) -> None:
    if not whole:
        if not share.startswith("0/"):
            pytest.skip("only in a whole run; of all shares' files it is a sample")
        share = "0/1"
    report = run("damage", str(corpus / "files"), kinds, share, "0" if whole else "80", "7")
    print(report)
    assert report["failed"] == 0, "\n".join(report["failures"])
    assert report["slowest"] < 5
    assert report["peak_mib"] < 400
    assert set(report["outcomes"]) == set(kinds.split())
    for kind in kinds.split():
        assert report["outcomes"][kind]["corrupt_file"] > 0, kind


# ---- what may be claimed


#: by name of the claim: the step that refuses it; empty where it does no harm
REFUSED_AT = {
    "fragments up to 2**32": "writing",
    "row ids used up": "writing",
    "no rows": "validating",
    "column -1": "validating",
    "a file of 2**63 bytes": "validating",
    "a file of 2**40 bytes": "validating",
    "field 2**31": "",  # as a column that was added later: its values are null
}


def test_huge_counts_do_not_allocate(tmp_path) -> None:
    base = tmp_path / "base"
    lk.write_dataset(hostile.ROWS, base)
    places = {}
    for number, (name, change) in enumerate(hostile.COUNTS.items()):
        path = tmp_path / str(number)
        shutil.copytree(base, path)
        hostile.alter(path, change)
        places[str(path)] = name
    found = {places[path]: step for path, step in run("hostile", *places).items()}
    for name, step in found.items():
        assert step in hostile.STEPS or name in REFUSED_AT, f"{name}:\n{step}"
        assert step == REFUSED_AT.get(name, step), name


@pytest.mark.parametrize(
    "name",
    [
        "../secret.lance",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b.lance",
        "a\\b",
        "..\\x",
        "data/../../x",
        "a\0b",
    ],
)
@pytest.mark.parametrize("place", ["data", "transaction"])
def test_names_in_a_manifest_are_bare(tmp_path, name: str, place: str) -> None:
    ds = lk.write_dataset(hostile.ROWS, tmp_path / "d")
    (tmp_path / "secret.lance").write_bytes(next((tmp_path / "d/data").iterdir()).read_bytes())
    manifest = ds._snapshot.manifest
    if place == "data":
        (fragment,) = manifest.fragments
        file = replace(fragment.files[0], path=name)
        evil = replace(fragment, files=(file,))
        manifest = replace(manifest, fragments=type(manifest.fragments).of([evil]))
    else:
        manifest = replace(manifest, transaction_file=name, inline_transaction=None)
    (file,) = (tmp_path / "d/_versions").glob("*.manifest")
    file.write_bytes(encode_manifest_file(manifest))
    opened = lk.dataset(tmp_path / "d")
    if place == "data":
        with pytest.raises(errors.CorruptFileError, match="bare file names"):
            opened.to_table()
    elif name == "":
        assert opened.read_transaction(1) is None
    else:
        with pytest.raises(errors.CorruptFileError, match="bare file names"):
            opened.read_transaction(1)


def test_fields_without_a_column_are_damage(tmp_path) -> None:
    """They are no columns that were added later, whose values are nulls."""
    ds = lk.write_dataset({"id": [1, 2], "v": [3, 4]}, tmp_path)
    manifest = ds._snapshot.manifest
    (fragment,) = manifest.fragments
    (file,) = fragment.files
    fewer = replace(fragment, files=(replace(file, column_indices=file.column_indices[:1]),))
    (path,) = (tmp_path / "_versions").glob("*.manifest")
    fragments = type(manifest.fragments).of([fewer])
    path.write_bytes(encode_manifest_file(replace(manifest, fragments=fragments)))
    for read in (lk.LanceDataset.to_table, lk.LanceDataset.validate):
        with pytest.raises(errors.CorruptFileError, match=r"2 fields"):
            read(lk.dataset(tmp_path))
    with pytest.raises(errors.CorruptFileError, match=r"2 fields"):
        lk.dataset(tmp_path).update({"id": "id + 1"})


def test_a_quoted_slash_stays_quoted(tmp_path) -> None:
    ds = lk.write_dataset(hostile.ROWS, tmp_path / "d")
    (fragment,) = ds._snapshot.manifest.fragments
    evil = replace(fragment, files=(replace(fragment.files[0], path="..%2F..%2Fx.lance"),))
    manifest = ds._snapshot.manifest
    manifest = replace(manifest, fragments=type(manifest.fragments).of([evil]))
    (file,) = (tmp_path / "d/_versions").glob("*.manifest")
    file.write_bytes(encode_manifest_file(manifest))
    with pytest.raises(errors.CorruptFileError, match=r"data/\.\.%2F\.\.%2Fx\.lance"):
        lk.dataset(tmp_path / "d").to_table()


@pytest.mark.parametrize("path", ["", "s3://", "gopher:///x", "s3://b/../x", "\0"])
def test_a_base_that_is_no_place_is_damage(tmp_path, path: str) -> None:
    clone = lk.write_dataset(hostile.ROWS, tmp_path / "d").shallow_clone(tmp_path / "c", 1)
    base = BasePath(id=0, path=path, is_dataset_root=True)
    manifest = replace(clone._snapshot.manifest, base_paths=(base,))
    (file,) = (tmp_path / "c/_versions").glob("*.manifest")
    file.write_bytes(encode_manifest_file(manifest))
    opened = lk.dataset(tmp_path / "c")
    with pytest.raises((errors.CorruptFileError, errors.UntrustedBaseError)):
        opened.to_table()


@pytest.mark.parametrize("name", ["../x", "..%2Fx", "/x", "a/../../x", "a//b", "\0", "x\\y", ".."])
def test_names_of_references_stay_inside(tmp_path, name: str) -> None:
    ds = lk.write_dataset(hostile.ROWS, tmp_path / "d")
    with pytest.raises(errors.InvalidArgumentError):
        ds.tags.create(name, 1)
    with pytest.raises(errors.InvalidArgumentError):
        ds.create_branch(name, 1)
    known = (errors.NotFoundError, errors.InvalidArgumentError)
    for look in (ds.tags.get_version, ds.tags.delete, ds.branches.delete, ds.checkout_version):
        with pytest.raises(known):
            look(name)
    with pytest.raises(known):
        ds.checkout_version((name, None))
    assert {path.name for path in tmp_path.iterdir()} == {"d"}


# ---- what can change unnoticed: docs/damage.md


def changed_fields(old: Any, new: Any, where: str = "") -> set[str]:
    """Return the names of all fields that differ."""
    if old == new:
        return set()
    if is_dataclass(old) and type(old) is type(new):
        parts = [f.name for f in fields(old)]
        return set().union(
            *(
                changed_fields(getattr(old, part), getattr(new, part), f"{where}.{part}")
                for part in parts
            )
        )
    sequences = isinstance(old, tuple) or type(old).__name__ == "FragmentList"
    if sequences and type(old) is type(new) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return set().union(*(changed_fields(a, b, f"{where}[]") for a, b in pairs))
    # a part of a nested column is a column, too
    return {where.removeprefix(".").replace("[].children[]", "[]", 1).replace(".children[]", "")}


def listed_fields() -> set[str]:
    """Return the fields that the page lists; those of nested columns count as the column's."""
    return set(re.findall(r"^\| `([^`]+)` \|", DAMAGE_PAGE.read_text(), re.MULTILINE))


@pytest.mark.torture
def test_the_page_lists_what_can_change_unnoticed(tmp_path, whole: bool) -> None:
    """Flip bits of manifests; a field that changed and that no step noticed must be listed."""
    damage.make_datasets(tmp_path)
    rng = random.Random(11)
    unnoticed: set[str] = set()
    for path in sorted(tmp_path.glob("*/_versions/*.manifest")):
        version, _ = parse_manifest_name(path.name)
        dataset = lance.dataset(str(path.parents[1]))
        if version != dataset.latest_version:
            continue
        data = path.read_bytes()
        intact = damage.open_manifest(data, version).manifest
        tries: dict[str, int] = {}
        for _, broken in damage.damages(data, None if whole else 200, rng):
            try:
                other = damage.open_manifest(broken, version).manifest
            except (errors.FormatError, errors.UntrustedBaseError):
                continue
            found = changed_fields(intact, other)
            most = 200 if whole else 1
            if found <= unnoticed or min(tries.get(name, 0) for name in found) >= most:
                continue
            for name in found:
                tries[name] = tries.get(name, 0) + 1
            path.write_bytes(broken)
            steps = ("opening", "looking", "reading", "row ids", "validating")
            outcome = hostile.run_steps([str(path.parents[1])], steps)[str(path.parents[1])]
            assert outcome in ("", *steps), outcome
            if not outcome:
                unnoticed |= found
        path.write_bytes(data)
    unlisted = unnoticed - listed_fields()
    assert not unlisted, "\n".join(f"| `{name}` |" for name in sorted(unlisted))
    unseen = listed_fields() - unnoticed if whole else set()
    assert not unseen, "\n".join(f"| `{name}` |" for name in sorted(unseen))
