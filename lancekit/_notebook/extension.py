"""What ``%load_ext lancekit`` gives a shell of IPython."""

from __future__ import annotations

from typing import cast

from lancekit._interrupts import Shell
from lancekit._notebook import completion
from lancekit._notebook.failures import install, uninstall
from lancekit._notebook.magics import register_magics, unregister_magics


def load(given: object) -> None:
    """Give a shell the magics, completions and, if it is a notebook's, errors as HTML cards."""
    shell = cast("Shell", given)
    register_magics(shell)
    completion.register(shell)
    install(shell)


def unload(given: object) -> None:
    """Take all of this back; a handler of exceptions that came later stays."""
    shell = cast("Shell", given)
    unregister_magics(shell)
    completion.unregister(shell)
    uninstall(shell)
