"""Which modules are the user's own, and what shows that a module is the same as before.

A module of the user's is one of a notebook, a script, or a file beside them; all others belong to
Python or to an installed package, whose release stands for them.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["import_parts", "is_own", "is_own_module", "release", "source_digest"]

#: folders of installed packages, also those that Python does not name, such as a user's
_PACKAGES = ("/site-packages/", "/dist-packages/")


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({f"{paths[name]}/".replace("\\", "/") for name in names if name in paths})


def is_own(module: str, file: str | None) -> bool:
    """Return True for code of the user's: of a notebook, a script, or a module beside them."""
    if module.partition(".")[0] in ("lancekit", "builtins"):
        return False
    name = (file or "<frozen").replace("\\", "/")
    installed = any(folder in name for folder in _PACKAGES)
    return not installed and not name.startswith(("<frozen", *_installed()))


def is_own_module(name: str, module: ModuleType | None = None) -> bool:
    """Return True for a module of the user's, which need not be one that Python has a name for."""
    if name == "__main__":  # whatever file began the process, such as that of a kernel
        return True
    module = module or sys.modules.get(name)
    file = _file(module)
    if file is None and getattr(module, "__spec__", None) is None:  # made by hand
        return is_own(name, "by hand")
    return is_own(name, file)


def _file(module: ModuleType | None) -> str | None:
    """Return the file of a module, or the folder of a package that has no file of its own."""
    file = getattr(module, "__file__", None)
    if file is not None:
        return str(file)
    return next((f"{folder}/" for folder in getattr(module, "__path__", ())), None)


def source_digest(module: ModuleType) -> bytes:
    """Return a digest of the file of a module, empty if it has none."""
    try:
        content = Path(_file(module) or "").read_bytes()
    except OSError:
        return b""
    return hashlib.blake2b(content, digest_size=16).digest()


def release(module: str) -> str:
    """Return what tells the release of a module's package: of a compiled module its content."""
    loaded = sys.modules.get(module)
    if loaded is not None and is_own_module(module, loaded):
        return "" if (_file(loaded) or ".py").endswith(".py") else source_digest(loaded).hex()
    top = module.partition(".")[0]
    version = getattr(sys.modules.get(top), "__version__", "")
    return f"{version if isinstance(version, str) else ''} {_distributions(top)}"


@functools.cache
def _distributions(top: str) -> str:
    """Return the versions of the installed packages that have a module.

    One that came from a folder or a repository may differ under one version: its files count.
    """
    if top in sys.stdlib_module_names or not top:
        return ""
    said = []
    for name in _providers().get(top, ()):
        package = metadata.distribution(name)
        said.append(f"{name} {package.version}")
        if package.read_text("direct_url.json") is not None:
            said.append(package.read_text("RECORD") or "")
    return " ".join(said)


@functools.cache
def _providers() -> dict[str, list[str]]:
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def import_parts(steps: Sequence[dis.Instruction], package: str) -> Iterator[tuple[str, Any]]:
    """Yield what the instructions of a function import, by what a message calls it.

    A module of the user's is imported, as the function does it when it is called.  What cannot be
    imported is ``None``.

    Parameters
    ----------
    steps
        The instructions of the function.
    package
        The package that the function belongs to, if any.
    """
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, names = (each.argval for each in steps[place - 2 : place])
        try:
            name = importlib.util.resolve_name("." * level + step.argval, package)
            top = name.partition(".")[0]
            if top not in sys.modules and importlib.util.find_spec(top) is None:
                yield f"the module {name}", "not installed"
                continue
            if not _is_own_name(top):
                yield f"the module {name}", _distributions(top)
                continue
            module = importlib.import_module(name)
            if not names:
                yield f"the module {name}", module
            for each in names or ():
                yield f"the import {name}.{each}", _imported(module, each)
        except Exception:
            yield f"the module {step.argval}", None


def _is_own_name(top: str) -> bool:
    if top in sys.modules:
        return is_own_module(top)
    spec = importlib.util.find_spec(top)
    places: Any = [spec and spec.origin, *((spec and spec.submodule_search_locations) or ())]
    return is_own(top, next((f"{place}/" for place in places if place), None))


def _imported(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        return importlib.import_module(f"{module.__name__}.{name}")
    return getattr(module, name)
