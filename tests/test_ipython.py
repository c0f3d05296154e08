"""Whether IPython is around is found without loading it."""

import subprocess
import sys
from types import SimpleNamespace

from lancekit._interrupts import active_shell, in_kernel
from tests.support.shells import ipython


def test_a_shell_is_found_and_is_no_kernel_by_itself():
    with ipython() as shell:
        assert active_shell() is shell
        assert not in_kernel()
    assert active_shell() is None
    assert not in_kernel()


def test_a_kernel_is_a_shell_that_has_one(monkeypatch):
    shell = SimpleNamespace(kernel=None)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert in_kernel()


def test_ipython_is_not_loaded_for_it():
    program = (
        "import sys; from lancekit._interrupts import active_shell, in_kernel;"
        "print(active_shell(), in_kernel(), 'IPython' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None", "False", "False"]
