"""The IPython extension that ``%load_ext lancekit`` loads."""

from __future__ import annotations

from typing import cast

from lancekit._interrupts import Shell
from lancekit._notebook import completion
from lancekit._notebook.failures import install, uninstall
from lancekit._notebook.magics import register_magics, unregister_magics


def load(given: object) -> None:
    """Install magics and completions in a shell, and in a notebook the HTML cards of errors."""
    shell = cast("Shell", given)
    register_magics(shell)
    completion.register(shell)
    install(shell)


def unload(given: object) -> None:
    """Remove all of this again; an exception handler that was installed later stays."""
    shell = cast("Shell", given)
    unregister_magics(shell)
    completion.unregister(shell)
    uninstall(shell)
