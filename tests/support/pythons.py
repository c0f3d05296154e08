"""The Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["interpreter"]


def interpreter(version: str) -> str | None:
    """Return a Python of that version that can make virtual environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = shutil.which(f"python{version}")
    check = f"import ensurepip, venv, sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for path in filter(None, [named, *map(str, pyenv.glob(f"{version}.*/bin/python"))]):
        if subprocess.run([path, "-c", check], capture_output=True, check=False).returncode == 0:
            return path
    return None
