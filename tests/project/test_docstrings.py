"""Docstrings keep the facts that they stated before they were rewritten in plain words, and those
of public functions of two and more arguments have all sections."""

from __future__ import annotations

from tests.support.docstring_facts import facts_of, listed, public_docstrings
from tests.support.docstring_sections import lacking, public_functions

#: facts that went on purpose, each with what became of it
GONE: dict[str, set[str]] = {}

#: functions that accept any values and raise nothing
RAISES_NOTHING = {"lancekit.progress.Tracker.set"}


def test_public_functions_of_two_and_more_arguments_have_all_sections() -> None:
    found = {name: lacking(function, text) for name, (function, text) in public_functions().items()}
    for name in RAISES_NOTHING:
        assert found.pop(name) == ["Raises"], "its docstring has the section now: no exception"
    assert {name: sections for name, sections in found.items() if sections} == {}


def test_functions_and_missing_sections_are_found() -> None:
    functions = public_functions()
    for name in (
        *("lancekit.write_dataset", "lancekit.diff", "lancekit.LanceDataset.to_table"),  # records
        *("lancekit.LanceDataset.commit", "lancekit.LanceFragment.create"),  # no plain methods
        *("lancekit.Tags.create", "lancekit.sampler.FullScanSampler.iter_fragments"),
    ):
        assert name in functions
    assert "lancekit.Tags.delete" not in functions  # of one argument

    def returns(one: int, two: int) -> int: ...

    def returns_nothing(one: int, two: int) -> None: ...

    assert lacking(returns, "") == ["Parameters", "Returns", "Raises", "Examples"]
    assert lacking(returns_nothing, "") == ["Parameters", "Raises", "Examples"]
    text = "A word.\n\nYields\n------\nint\n\nRaises\n------\nValueError"
    assert lacking(returns, text) == ["Parameters", "Examples"]


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
