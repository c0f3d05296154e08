"""Datasets to be drawn, and what is asked of every drawing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np

import lancekit as lk
from lancekit._format import names
from lancekit._format.manifest import encode_manifest_file
from lancekit._format.names import ManifestNaming

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["<script>alert(1)</script>", "a\"b'&amp;", "$x^2$ \\", "שלום עולם", "👩‍🚀" * 3, "x" * 300]


def parsed(picture):
    """Return the root of a picture's SVG, which is sound, says what it is, and harms nobody."""
    root = ET.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text in root.get("aria-label")
    assert root.find(f"{SVG}desc").text
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        "svg", "title", "desc", "style", "g", "defs", "path", "rect", "circle", "text", "tspan",
        "use", "clipPath", "pattern",
    }  # fmt: skip
    for one in root.iter():
        for key, value in one.attrib.items():
            assert not key.startswith("on")
            if key.endswith("href"):
                assert value.startswith("#")
    # one style, scoped to the class; besides it colours are variables
    (style,) = root.iter(f"{SVG}style")
    for selector in re.findall(r"([^{}]+)\{[^{}]", style.text):
        assert "lancekit-picture" in selector or "@media" in selector
    body = picture.svg.replace(style.text, "")
    assert not re.findall(r"(?:fill|stroke): ?#[0-9a-f]{6}", body)
    return root


def words(root):
    return [e.text for e in root.iter() if e.tag in {f"{SVG}text", f"{SVG}tspan"} and e.text]


def numbered(place: Path, last: int) -> lk.LanceDataset:
    """Make a dataset with very many versions, all but the first two by hand."""
    ds = lk.write_dataset({"x": [1]}, place)
    ds.insert({"x": [2]})
    manifest = ds._snapshot.manifest
    for version in range(3, last + 1):
        data = encode_manifest_file(replace(manifest, version=version, inline_transaction=None))
        path = place / "_versions" / names.manifest_name(version, ManifestNaming.V2)
        path.write_bytes(data)
    return lk.dataset(place)


def merged(place: Path) -> lk.LanceDataset:
    """Make a dataset with branches that were merged, tags, and a clone of it beside it."""
    ds = lk.write_dataset(
        {"id": [1, 2, 3], "v": [1, 2, 3]}, place, primary_key="id", commit_message="the first"
    )
    for i in range(6):
        ds.insert({"id": [10 + i], "v": [4]})
    ds.tags.create("jan", 3)
    trial = ds.create_branch("trial")
    trial.insert({"id": [20], "v": [4]})
    ds.branches.merge("trial")
    ds.insert({"id": [30], "v": [4]})
    trial.insert({"id": [21], "v": [4]})
    ds.branches.merge("trial")
    ds.create_branch("team/other", "jan")
    ds.shallow_clone(place.with_name("clone.lance"), ds.version)
    return ds


def keyed(ds, ids):
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute({"id": np.asarray(ids), "v": np.asarray(ids)})
