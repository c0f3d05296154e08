"""Kernels without `pyarrow.compute` answer as those of `pyarrow.compute` do."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute
import pytest

from lancekit import _arrow_compute as pc

NUMBERS = pa.array([3, None, 1, 2], pa.int16())
TEXTS = pa.array(["b", None, "ab", ""])
LISTS = pa.array([[1], None, [], [2, 3]])
CHUNKS = pa.chunked_array([TEXTS[:1], TEXTS[1:]])
SCALAR = pa.scalar(7, pa.int16())


@pytest.mark.parametrize(
    ("name", "values", "options"),
    [
        ("add", (NUMBERS, SCALAR), {}),
        ("and_", (pa.array([True, None]), pa.array([True, False])), {}),
        ("cast", (NUMBERS, pa.int64()), {}),
        ("cast", (pa.array([1.5]), pa.int64()), {"safe": False}),
        ("cast", (NUMBERS,), {"target_type": "int64"}),
        ("cast", (SCALAR, pa.string()), {}),
        ("coalesce", (NUMBERS, SCALAR), {}),
        ("fill_null", (NUMBERS, 0), {}),
        ("fill_null", (NUMBERS, SCALAR), {}),
        ("fill_null", (NUMBERS, pa.scalar(7, pa.int64())), {}),
        ("fill_null", (NUMBERS, pa.array([9, 8, 7, 6], pa.int16())), {}),
        ("fill_null", (CHUNKS, "?"), {}),
        ("filter", (TEXTS, pa.array([True, None, False, True])), {}),
        ("index_in", (TEXTS,), {"value_set": TEXTS}),
        ("is_in", (TEXTS, pa.array(["b", None])), {"skip_nulls": True}),
        ("is_null", (CHUNKS,), {}),
        ("list_flatten", (LISTS,), {}),
        ("match_substring", (TEXTS, "b"), {}),
        ("max", (NUMBERS,), {}),
        ("round", (pa.array([1.25]), 1), {"round_mode": "towards_zero"}),
        ("round", (pa.array([1.25]),), {"options": pc.RoundOptions(1)}),
        ("struct_field", (pa.array([{"a": 1}]), ["a"]), {}),
        ("take", (TEXTS, pa.array([2, None, 0])), {}),
        ("take", (pa.table({"t": TEXTS}), [1, 2]), {}),
        ("index", (NUMBERS, 2), {}),
    ],
)
def test_a_kernel_answers_as_that_of_arrow(
    name: str, values: tuple[object, ...], options: dict[str, object]
) -> None:
    found = getattr(pc, name)(*values, **options)
    expected = getattr(pyarrow.compute, name)(*values, **options)
    assert found == expected
    assert type(found) is type(expected)
    assert found.schema == expected.schema if isinstance(found, pa.Table) else True


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("add", (NUMBERS,), pa.ArrowInvalid),
        ("add", (NUMBERS, SCALAR, SCALAR), TypeError),
        ("cast", (TEXTS, pa.int8()), pa.ArrowInvalid),
        ("is_in", (TEXTS,), (TypeError, pa.ArrowInvalid)),
        ("match_substring", (TEXTS, "b", False, 1), TypeError),
        ("nothing_like_it", (), AttributeError),
    ],
)
def test_a_wrong_call_is_refused(
    name: str, values: tuple[object, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        getattr(pc, name)(*values)


def test_what_is_no_kernel_is_that_of_arrow() -> None:
    for name in ("Expression", "RoundOptions", "field", "scalar"):
        assert getattr(pc, name) is getattr(pyarrow.compute, name)


def test_a_pyarrow_without_these_parts_takes_longer(tmp_path: object) -> None:
    program = (
        "import pyarrow, sys\n"
        "pyarrow._compute = sys.modules['pyarrow._compute'] = object()\n"
        "from lancekit import _arrow_compute as pc\n"
        "import pyarrow as pa\n"
        "del sys.modules['pyarrow._compute'], pyarrow._compute\n"
        "print(pc.fill_null(pc.add(pa.array([1, None]), 1), 0).to_pylist())\n"
        "print('pyarrow.compute' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[2, 0]", "True"]
