"""The old side of a run may have former names of modules.

Tests of this checkout name `lancekit._format`, which was `lancekit.format`, and modules of
`RENAMED`.  `know_former_names` gives them the former module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

__all__ = ["know_former_names"]

#: module -> its former name
RENAMED = {"lancekit._versions.branch_location": "lancekit._versions.line"}


class _Former(MetaPathFinder, Loader):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in RENAMED:
            return ModuleSpec(name, self) if _is_former(name) else None
        package, _, rest = name.partition("._")
        room = rest.partition(".")[0]
        if package != "lancekit" or not room or PathFinder.find_spec(f"lancekit._{room}", _path()):
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        former = RENAMED.get(spec.name) or spec.name.replace("._", ".", 1)
        module = import_module(former)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own  # the import system has put another one there


def _is_former(name: str) -> bool:
    room = name.rpartition(".")[0]
    return PathFinder.find_spec(name, import_module(room).__path__) is None


def _path() -> Sequence[str]:
    return list(sys.modules["lancekit"].__path__)


def know_former_names() -> None:
    """Let modules be imported by names that they got later."""
    sys.meta_path.insert(0, _Former())
