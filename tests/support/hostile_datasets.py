"""Datasets made to do harm, by name; and everything that a dataset offers, tried on them.

Run as a program (``python -m tests.support.hostile_datasets``) it makes each, tries the calls in
turn, and prints what came of them: memory and work are limited for the process, not for tests.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import stat
import sys
import unicodedata
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, cycle, product
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancekit as lk
from lancekit import errors
from lancekit._format.manifest import BasePath, encode_manifest_file
from tests.support import hostile
from tests.support.patience import at_most
from tests.support.plants import SPECIALS, link, move, replace_by
from tests.support.public_calls import CALLS, ROWS

__all__ = ["HOSTILE", "Place", "make", "snapshot", "stage", "trial"]

EXTRA_BYTES = 1 << 31
SECONDS = 20
"""Of the processor's time; a call takes some hundredths."""

EVIL = "a\u202ek\u2066\n\t\x1b[31m\u200b<script>"
"""A name that turns text around, breaks lines, colours a terminal and is markup."""


@dataclass(frozen=True)
class Place:
    """The folder of one trial."""

    root: Path

    @property
    def received(self) -> Path:
        """The dataset that a stranger sent."""
        return self.root / "received"

    @property
    def beside(self) -> Path:
        """A dataset of one's own, in the same folder."""
        return self.root / "beside"

    @property
    def notes(self) -> Path:
        """A folder with what is none of anybody's business."""
        return self.root / "notes"

    @property
    def made(self) -> Path:
        """An empty folder for what the calls make."""
        return self.root / "made"


Change = Callable[[Place], None]


def stage(root: Path) -> Place:
    """Make a folder with a dataset as it is sent, one of one's own and some notes."""
    place = Place(root)
    for path in (place.received, place.beside):
        ds = lk.write_dataset(ROWS, path)
        ds = lk.write_dataset(ROWS, ds, mode="append")
        ds.delete("k = 2")
        ds.tags.create("t", 2)
        branch = ds.create_branch("b", 2)
        branch.insert(ROWS)
        branch.delete("k = 3")
    place.notes.mkdir()
    for name in ("secret.txt", "secret.lance", "b.json", "1.manifest"):
        (place.notes / name).write_text("a secret")
    place.made.mkdir()
    return place


def make(staged: Place, root: Path, name: str) -> Place:
    """Copy a staged folder and make its dataset hostile."""
    shutil.copytree(staged.root, root, symlinks=True)
    place = Place(root)
    HOSTILE[name](place)
    return place


def snapshot(place: Place) -> dict[str, tuple[int, int, bytes]]:
    """Return what lies outside of the dataset that was sent, and of what the calls make."""
    found = {}
    for folder, names, files in os.walk(place.root):
        inside = Path(folder)
        if inside == place.root:
            for name in ("received", "made"):
                with suppress(ValueError):
                    names.remove(name)
        for name in [*names, *files]:
            path = inside / name
            status = path.lstat()
            plain = stat.S_ISREG(status.st_mode)
            content = path.read_bytes() if plain else b""
            found[str(path)] = (status.st_mode, status.st_mtime_ns if plain else 0, content)
    return found


# ---- links

#: folders of a dataset, and what stands beside it in their place
FOLDERS = (
    "data",
    "_versions",
    "_transactions",
    "_deletions",
    "_refs",
    "_refs/tags",
    "_refs/branches",
    "tree",
    "tree/b",
    "tree/b/data",
    "tree/b/_versions",
    "tree/b/_transactions",
    "tree/b/_deletions",
)
EAGER = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}


def _eager(place: Place) -> None:
    """Let the dataset ask for a cleanup of everything at each commit."""
    _rewritten(place.received, lambda manifest: replace(manifest, config=EAGER))


def _linked(folder: str, target: Callable[[Place], Path | str]) -> Change:
    def change(place: Place) -> None:
        _eager(place)
        link(place.received / folder, target(place))

    return change


def _links() -> dict[str, Change]:
    found: dict[str, Change] = {}
    for folder in FOLDERS:
        up = "../" * (folder.count("/") + 1)
        found |= {
            f"{folder} is another dataset's": _linked(folder, lambda p, f=folder: p.beside / f),
            f"{folder} is a folder of notes": _linked(folder, lambda p, u=up: f"{u}notes"),
            f"{folder} is the folder above": _linked(folder, lambda p, u=up: u),
            f"{folder} is itself": _linked(folder, lambda p, f=folder: Path(f).name),
        }
    return found


def _copied_link(place: Place) -> None:
    """Keep the files readable: all that a reader needs is there, behind a link."""
    _eager(place)
    move(place.received / "data", place.root / "kept")


# ---- special files

#: by kind, the files of it
KINDS = {
    "manifest": "_versions/*",
    "transaction": "_transactions/*",
    "deletion": "_deletions/*",
    "tag": "_refs/tags/*",
    "branch": "_refs/branches/*",
    "data": "data/*",
    "data of the branch": "tree/b/data/*",
}


def _replaced(pattern: str, put: Callable[[Path], object]) -> Change:
    def change(place: Place) -> None:
        for path in sorted(place.received.glob(pattern)):
            replace_by(path, put)

    return change


def _added(name: str, put: Callable[[Path], object]) -> Change:
    def change(place: Place) -> None:
        replace_by(place.received / name, put)

    return change


def _special() -> dict[str, Change]:
    found = {
        f"each {kind} file is {what}": _replaced(pattern, put)
        for kind, pattern in KINDS.items()
        for what, put in SPECIALS.items()
    }
    for name in ("_latest.manifest", "_versions/latest_version_hint.json", "_versions/99.manifest"):
        found |= {f"{name} is {what}": _added(name, put) for what, put in SPECIALS.items()}
    return found


# ---- what references, settings and manifests may claim


def _rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    read = lk.dataset(path)._snapshot
    data = encode_manifest_file(change(read.manifest), index_section=None)
    (path / "_versions" / read.manifest_name).write_bytes(data)


def _reference(name: str, **parts: Any) -> Change:
    def change(place: Place) -> None:
        path = place.received / "_refs" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | parts))

    return change


def _planted(target: Callable[[Place], Path]) -> Change:
    """Name a branch whose folder is a link."""

    def change(place: Place) -> None:
        refs = place.received / "_refs/branches"
        (refs / "victim.json").write_bytes((refs / "b.json").read_bytes())
        (place.received / "tree/victim").symlink_to(target(place))

    return change


def _unnamed_folders(place: Place) -> None:
    """Put folders where branches are, that are none."""
    _eager(place)
    shutil.copytree(place.notes, place.received / "tree/victim")
    shutil.copytree(place.notes, place.received / "tree/x/_versions")


def _config(**settings: str) -> Change:
    config = {f"lance.auto_cleanup.{name}": value for name, value in settings.items()}
    return lambda place: _rewritten(place.received, lambda m: replace(m, config=config))


def _base(path: Callable[[Place], str]) -> Change:
    def change(place: Place) -> None:
        base = BasePath(id=4, path=path(place), is_dataset_root=True)
        _rewritten(place.received, lambda m: replace(m, base_paths=(base,)))

    return change


def _claims() -> dict[str, Change]:
    names = ("../../beside", "..", "/", "a/../../../beside", "\0", EVIL, "x" * 5000)
    found = {
        "an eager cleanup": _eager,
        "a branch that is another dataset": _planted(lambda place: place.beside),
        "a branch that is a folder of notes": _planted(lambda place: place.notes),
        "a branch that is this dataset": _planted(lambda place: place.received),
        "folders that are no branches": _unnamed_folders,
        "a base beside": _base(lambda place: str(place.beside)),
        "a base that is /": _base(lambda place: "/"),
        "a base elsewhere": _base(lambda place: "s3://user:secret@stranger/x?sig=secret"),
        "a base with a strange name": _base(lambda place: f"/{EVIL}"),
        "data behind a link": _copied_link,
    }
    for name in names:
        found[f"a tag on {name[:40]!r}"] = _reference("tags/t.json", branch=name)
        found[f"a branch of {name[:40]!r}"] = _reference("branches/b.json", parentBranch=name)
        found[f"a dataset on {name[:40]!r}"] = lambda place, name=name: _rewritten(
            place.received, lambda m: replace(m, branch=name)
        )
    for value in (0, -1, 1 << 40, 1 << 64, "x", None, [1], {"a": 1}, 1e300):
        found[f"a tag on version {value!r}"] = _reference("tags/t.json", version=value)
        found[f"a branch of version {value!r}"] = _reference("branches/b.json", parentVersion=value)
    for value in ("0", "-1", "x", "", "1" * 5000, "1e9", "٣"):
        found[f"a cleanup every {value[:9]!r}"] = _config(interval=value, older_than="0s")
        found[f"a cleanup after {value[:9]!r}"] = _config(interval="1", older_than=value)
        found[f"a cleanup that leaves {value[:9]!r}"] = _config(interval="1", retain_versions=value)
    for claim, change in hostile.COUNTS.items():
        found[f"a manifest claims {claim}"] = lambda place, change=change: _claimed(place, change)
    return found


def _claimed(place: Place, change: hostile.Alter) -> None:
    shutil.rmtree(place.received)
    ds = lk.write_dataset(ROWS, place.received)
    hostile.alter(place.received, change)
    with suppress(errors.LancekitError):
        ds.tags.create("t", 1)


# ---- texts


def _texts(text: str) -> Change:
    def change(place: Place) -> None:
        shutil.rmtree(place.received)
        rows = ROWS.append_column(pa.field(text or "x", pa.int64()), pa.array(range(4)))
        ds = lk.write_dataset(rows, place.received, commit_message=text)
        ds.update_config({f"x{text}": text})
        ds.update_metadata({f"x{text}": text})
        ds.update_schema_metadata({f"x{text}": text})
        ds.update_field_metadata({"k": {f"x{text}": text}})
        ds.tags.create("t", 1)
        ds.create_branch("b", 1)

    return change


def _json(name: str, text: str) -> Change:
    return lambda place: _write(place.received / "_refs" / name, text)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


_MANY_DIGITS = f'{{"version": {"1" * 5000}, "parentVersion": {"1" * 5000}}}'

HOSTILE: dict[str, Change] = {
    **_links(),
    **_special(),
    **_claims(),
    "strange names and texts": _texts(EVIL),
    "names that are markup": _texts("<img src=x onerror=alert(1)>"),
    "long names and texts": _texts("x" * 100_000),
    "a tag file of brackets": _json("tags/t.json", "[" * 200_000),
    "a branch file of brackets": _json("branches/b.json", "[" * 200_000),
    "a tag on a version of many digits": _json("tags/t.json", _MANY_DIGITS),
    "a branch of a version of many digits": _json("branches/b.json", _MANY_DIGITS),
}
"""By name: makes a staged dataset hostile."""


# ---- trials


def _unclean(text: str) -> str:
    """Return the characters of a text that a screen must not be given."""
    return "".join(
        {c for c in text if c not in "\n\t" and unicodedata.category(c) in {"Cc", "Cf", "Cs"}}
    )


def trial(place: Place, call: str) -> str:
    """Try one call on a hostile dataset; return what must not have come of it, or nothing."""
    said: list[str] = []
    before = snapshot(place)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with at_most(SECONDS):
                ds = lk.dataset(place.received)
                result = CALLS[call](ds, place.made)
                if isinstance(result, list):
                    said += [text for text in result if isinstance(text, str)]
        except errors.LancekitError as error:
            said += [str(error), repr(error)]
            html = getattr(error, "_repr_html_", None)
            said += [html() if html else ""]
    said += [str(warning.message) for warning in caught]
    after = snapshot(place)
    if after != before:
        changed = {path for path in before | after if before.get(path) != after.get(path)}
        return f"changed outside: {sorted(changed)}"
    for text in said:
        if unclean := _unclean(text):
            return f"shows {unclean!r}: {text[:300]!r}"
        if "secret" in text.replace("secret.", "").replace("a secret", "!secret!"):
            return f"tells a secret: {text[:300]!r}"
    return ""


def main(root: str, how: str, *names: str) -> None:
    """Try every call on hostile datasets, or on each the next one, and print faults.

    Every third one is shown, too, if each has one call.

    ``how`` is ``every`` or ``next``.
    """
    faulthandler.enable()
    staged = stage(Path(root, "staged"))
    os.environ |= {"XDG_STATE_HOME": f"{root}/home", "MPLCONFIGDIR": f"{root}/home"}
    # what the calls import and start is not counted
    for call in CALLS:
        warm = Place(Path(root, "warm"))
        shutil.copytree(staged.root, warm.root, symlinks=True)
        with suppress(errors.LancekitError):
            CALLS[call](lk.dataset(warm.received), warm.made)
        shutil.rmtree(warm.root)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES, used + EXTRA_BYTES))
    found, tried = {}, 0
    turns = zip(names, cycle(CALLS), strict=False)
    in_turn = chain.from_iterable(
        [(name, call), *([(name, "shown")] if place % 3 == 0 else [])]
        for place, (name, call) in enumerate(turns)
    )
    for name, call in product(names, CALLS) if how == "every" else in_turn:
        place = make(staged, Path(root, "trial"), name)
        print(name, "|", call, file=sys.stderr, flush=True)
        try:
            wrong = trial(place, call)
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]}"
        if wrong:
            found[f"{name} | {call}"] = wrong
        tried += 1
        shutil.rmtree(place.root)
    print(json.dumps({"tried": tried, "found": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
