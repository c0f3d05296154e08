"""A call of a value, or a method without its call, gets a note with the right line."""

from __future__ import annotations

import pytest
from IPython.utils.capture import capture_output

import lancekit as lk
from lancekit._notebook.called_values import add_note
from tests.support.shells import ipython

NOTES = {
    "ds.version()": "ds.version is a value of type int. Use ds.version.",
    "x = (1 +  ds.schema() )": "ds.schema is a value of type Schema. Use ds.schema.",
    "ds.versions[0]": "ds.versions is a method. Use ds.versions()[0].",
    "lk.query('SELECT 1')": "lk.query is a module. It has ",
    "ds.versions()[0].operation()": "",
    "def f(handle):\n    return handle.uri()\nf(ds)": "handle.uri is a value of type str.",
    "ds.branch(\n    'x'\n)": "",  # only what stands in one line is read
    "'é', ds.branch('x')": "ds.branch is a value of type str.",
    "(lambda: 1)()()": "",
    "len(5)": "",
    "[].x.y()": "",
    "frame.columns()": "",
}


@pytest.mark.parametrize("cell", NOTES)
def test_python_s_error_has_a_note(cell: str) -> None:
    import pandas as pd

    names = {"ds": lk.write_dataset({"id": [1]}, "memory://called"), "lk": lk}
    with ipython() as shell:
        shell.kernel = None  # as a notebook has one
        shell.run_line_magic("load_ext", "lancekit")
        shell.user_ns |= {**names, "frame": pd.DataFrame({"a": [1]})}
        with capture_output() as shown:
            done = shell.run_cell(cell)
    notes = getattr(done.error_in_exec, "__notes__", [])
    assert isinstance(done.error_in_exec, TypeError | AttributeError)
    assert " ".join(notes).startswith(NOTES[cell])
    assert bool(notes) is bool(NOTES[cell])
    assert NOTES[cell] in shown.stdout
    assert type(done.error_in_exec).__name__ in shown.stdout


def test_an_error_of_other_code_gets_none() -> None:
    with pytest.raises(TypeError) as caught:
        len(5)  # type: ignore[arg-type]
    add_note(caught.value, caught.tb)
    assert not hasattr(caught.value, "__notes__")
