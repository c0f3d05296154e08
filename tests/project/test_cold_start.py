"""What the first call of a process loads.

A module that a call does not need makes every script, kernel, Spark worker and loader process
start later.  If a module is new on the list on purpose, ``python -m tests.support.cold_start``
writes the list anew.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    "import": (20, 4, 0.2e6),
    "count": (100, 32, 1.0e6),
    "filter": (215, 85, 2.3e6),
    "card": (135, 78, 1.32e6),
}


#: common calls, one after the other in one process, on rows that come without pandas
CALLS_WITHOUT_PANDAS = """
ds.to_table(columns={"twice": "id * 2"}, filter="name LIKE 'n1%' AND id BETWEEN 5 AND 700").num_rows
ds.head(5), ds.take([1, 700]), ds.sample(3)
ds.delete("id = 5")
ds.update({"name": "'x'"}, where="id < 3")
rows = ds.to_table(filter="id < 40")
lk.write_dataset(rows, ds, mode="append")
lk.write_dataset(rows, uri + ".new")
ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows.slice(9))
ds.add_columns({"more": "id + 1"})
ds.create_scalar_index("id", "BTREE")
ds.create_scalar_index("name", "BITMAP")
ds.to_table(filter="id = 7 AND name = 'n7'")
ds.optimize.compact_files()
ds.diff(1).counts
ds.tags.create("t", 1), ds.create_branch("b"), ds.checkout_version(1).restore()
ds.cleanup_old_versions()
"""


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


def test_common_calls_load_neither_pandas_nor_the_documentation_of_kernels(
    tmp_path: Path,
) -> None:
    program = """if True:
        import sys
        import lancekit as lk
        uri, text = sys.argv[1:]
        ds = lk.dataset(uri)
        for line in text.strip().splitlines():
            exec(line)
            heavy = {"pandas", "pyarrow.compute", "pyarrow.dataset"} & set(sys.modules)
            if heavy:
                sys.exit(f"{line} loads {' and '.join(sorted(heavy))}")
    """
    uri = make_table(tmp_path)
    command = [sys.executable, "-c", program, uri, CALLS_WITHOUT_PANDAS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
