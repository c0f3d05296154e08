"""An argument that is none of its choices is named, with the value and the choices."""

from __future__ import annotations

import pytest

from lancekit._choice import check_choice
from lancekit.errors import InvalidArgumentError


@pytest.mark.parametrize("value", ["c", None, ["a"], "A"])
def test_what_is_no_choice_is_named(value: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_choice("by", value, ("a", "b"), or_else=", or a function")
    assert caught.value.message == f"by must be 'a' or 'b', or a function, got {value!r}."
    check_choice("by", "b", ("a", "b"))


def test_more_than_two_are_listed() -> None:
    with pytest.raises(InvalidArgumentError, match="must be 'a', 'b' or 'c', got"):
        check_choice("by", "", {"a": 1, "b": 2, "c": 3})
    with pytest.raises(InvalidArgumentError, match="must be 'a', got"):
        check_choice("by", "", ("a",))
