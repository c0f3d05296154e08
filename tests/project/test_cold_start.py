"""What the first call of a process loads.

A module that a call does not need makes every script, kernel, Spark worker and loader process
start later.  If a module is new on the list on purpose, ``python -m tests.support.cold_start``
writes the list anew.
"""

from __future__ import annotations

import pytest

from tests.support.cold_start import CALLS, Loaded, listed, loaded, make_table

#: what takes long to load, and what is loaded only where it is used
HEAVY = """
    pyspark  ipywidgets  matplotlib  pandas  polars  sqlglot  datafusion  duckdb
    numba  llvmlite  pyarrow.dataset  IPython
"""
#: the packages that each call may load besides
PACKAGES = {
    "import": {"cloudpickle", "numpy", "pyarrow"},
    "count": {"cloudpickle", "google", "numpy", "pyarrow", "pyroaring"},
    "filter": {"cloudpickle", "google", "numpy", "pyarrow", "pyroaring", "xxhash"},
    "card": {"cloudpickle", "google", "numpy", "pyarrow", "pyroaring"},
}
#: the most modules, dataclasses and bytes of bytecode
MOST = {
    "import": (30, 10, 0.3e6),
    "count": (120, 45, 1.2e6),
    "filter": (225, 95, 2.4e6),
    "card": (140, 85, 1.35e6),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    uri = make_table(tmp_path_factory.mktemp("cold"))
    return {call: loaded(call, uri) for call in CALLS}


@pytest.mark.parametrize("call", CALLS)
def test_a_first_call_loads_the_modules_that_are_listed(
    call: str, found: dict[str, Loaded]
) -> None:
    expected = listed()[call]
    assert found[call].modules - expected == set(), "loaded, and not on the list"
    assert expected - found[call].modules == set(), "on the list, and not loaded"


@pytest.mark.parametrize("call", CALLS)
def test_a_first_call_loads_no_other_packages(call: str, found: dict[str, Loaded]) -> None:
    assert found[call].packages <= PACKAGES[call]
    assert not (found[call].packages | found[call].parts) & set(HEAVY.split())


@pytest.mark.parametrize("call", ["import", "count", "card"])
def test_a_call_without_rows_loads_no_kernels_of_arrow(call: str, found: dict[str, Loaded]) -> None:
    assert not found[call].parts


@pytest.mark.parametrize("call", CALLS)
def test_a_first_call_loads_no_more_than_it_may(call: str, found: dict[str, Loaded]) -> None:
    modules, dataclasses, bytecode = MOST[call]
    assert len(found[call].modules) <= modules
    assert found[call].dataclasses <= dataclasses
    assert found[call].bytecode <= bytecode
