"""The surface that follows pylance: names, signatures, the page that lists them."""

from __future__ import annotations

from inspect import Parameter

import lance
import lance.fragment
import pytest

import lancekit as lk
import lancekit.fragment
from lancekit._api.not_offered import NOT_OFFERED
from lancekit.errors import NotOfferedAttributeError
from tests.support.pylance_coverage import (
    CLASSES,
    DIFFERENCES,
    MODULES,
    OTHER_SIGNATURE,
    PAGE,
    names_of_module,
    offers,
    page,
    parameters,
    public_names,
)


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("owner", CLASSES)
def test_every_name_is_accounted_for_once(owner: str) -> None:
    theirs, ours = CLASSES[owner]
    missing = NOT_OFFERED.get(owner, {})
    for name in public_names(theirs):
        assert (ours is not None and offers(ours, name)) != (name in missing), name
    assert set(missing) <= set(public_names(theirs))


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_module_is_accounted_for_once(module: str) -> None:
    names = dict(names_of_module(module))
    missing = {name for name, offered in names.items() if not offered}
    assert missing == set(NOT_OFFERED.get(module, {}))


def test_every_difference_is_about_something_offered() -> None:
    for name in DIFFERENCES:
        owner, member = name.split(".")
        assert offers(CLASSES[owner][1], member), name


def _shared() -> list[tuple[str, str]]:
    return [
        (owner, name)
        for owner, (theirs, ours) in CLASSES.items()
        if ours is not None
        for name in public_names(theirs)
        if offers(ours, name) and callable(member := getattr(theirs, name))
        if not isinstance(member, type)  # whose fields are compared where it is made and read
        if f"{owner}.{name}" not in OTHER_SIGNATURE
    ]


@pytest.mark.parametrize(("owner", "name"), _shared())
def test_signature_is_the_references(owner: str, name: str) -> None:
    theirs, ours = CLASSES[owner]
    assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name))


FUNCTIONS = {
    "dataset": (lance.dataset, lk.dataset),
    "write_dataset": (lance.write_dataset, lk.write_dataset),
    "write_fragments": (lance.fragment.write_fragments, lk.fragment.write_fragments),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_signatures(name: str) -> None:
    theirs, ours = FUNCTIONS[name]
    extra = {"primary_key", "primary_key_check", "checksums", "optimize_for", "manifest_store"}
    extra |= {"branch", "schema_mode"}
    mine, others = [p for p in parameters(ours) if p[0] not in extra], parameters(theirs)
    by_place = Parameter.POSITIONAL_OR_KEYWORD
    assert [p for p in mine if p[1] is by_place] == [p for p in others if p[1] is by_place]
    assert sorted(mine, key=str) == sorted(others, key=str)  # named, in whichever order


def test_a_missing_name_says_why(tmp_path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    with pytest.raises(NotOfferedAttributeError, match="simd_info is not supported: NumPy"):
        lk.simd_info  # noqa: B018
    with pytest.raises(AttributeError, match="module 'lancekit' has no attribute 'nonsense'"):
        lk.nonsense  # noqa: B018
    with pytest.raises(NotOfferedAttributeError, match="DataOverlay is not supported: overlays"):
        lk.LanceOperation.DataOverlay  # noqa: B018
    assert not hasattr(ds, "replace_schema")
    with pytest.raises(NotOfferedAttributeError, match="replace_schema is not supported: pylance"):
        ds.replace_schema  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ds.nonsense  # noqa: B018
