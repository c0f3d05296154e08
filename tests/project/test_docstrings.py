"""Docstrings keep the facts that they stated before they were rewritten in plain words."""

from __future__ import annotations

from tests.support.docstring_facts import facts_of, listed, public_docstrings

#: facts that went on purpose, each with what became of it
GONE: dict[str, set[str]] = {}


def test_no_fact_of_a_public_docstring_is_lost() -> None:
    here = public_docstrings()
    lost = {
        name: missing
        for name, facts in listed().items()
        if (missing := facts - facts_of(here.get(name, "")) - GONE.get(name, set()))
    }
    assert lost == {}


def test_facts_are_found() -> None:
    text = """Wait, at most so many seconds.

    Parameters
    ----------
    rows, columns
        An array of shape (rows, 2): docs/format/table.md, 3.1.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    ValueError, KeyError
        It ends.

    Examples
    --------
    >>> 1
    1
    """.replace("\n    ", "\n")
    assert facts_of(text) == {
        "unit second",
        "shape (rows, 2)",
        "format docs/format/table.md, 3.1",
        "parameter rows",
        "parameter columns",
        "returns",
        "raises ValueError",
        "raises KeyError",
        "example",
    }
