"""Constraints in a table's config, where every version and every branch carries them on.

Each is an entry ``lancekit.constraints.<name>``, whose value is JSON: ``version`` (1),
``condition``, ``on_fail`` and ``existing``.  A release that knows more writes a higher version, and
this one refuses by name to commit what it cannot try.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from lancekit._legible import shown
from lancekit.errors import UnsupportedFeatureError

__all__ = ["PREFIX", "Constraint", "Existing", "OnFail", "has_constraints", "stored_constraints"]

PREFIX = "lancekit.constraints."
_VERSION = 1

#: what becomes of rows that do not meet a constraint, and of those that are there already
OnFail = Literal["refuse", "warn"]
Existing = Literal["refuse", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A condition by its name.

    Attributes
    ----------
    name
        What errors call it.
    condition
        The text; empty if `unknown` says why it cannot be read.
    on_fail
        Whether a commit that does not meet it is refused, or lands with a warning.
    existing
        ``"allow"`` if rows that were there before may break it.
    unknown
        Why this release cannot read what is stored; empty if it can.
    """

    name: str
    condition: str
    on_fail: OnFail = "refuse"
    existing: Existing = "refuse"
    unknown: str = ""

    @property
    def key(self) -> str:
        """The key of the config that it is stored under."""
        return PREFIX + self.name

    def encoded(self) -> str:
        """Return what is stored."""
        return json.dumps(
            {
                "version": _VERSION,
                "condition": self.condition,
                "on_fail": self.on_fail,
                "existing": self.existing,
            }
        )

    def check_known(self) -> None:
        """Raise ``UnsupportedFeatureError`` if this release cannot read it."""
        if self.unknown:
            raise UnsupportedFeatureError(
                f"The constraint {self.name!r} cannot be tried: {self.unknown}.",
                hint="Commit with the release of lancekit that added it, or drop it: "
                f"ds.constraints.drop({self.name!r}).",
                constraint=self.name,
            )


def has_constraints(config: Mapping[str, str]) -> bool:
    """Tell whether a table has any: that is all that a commit to another one pays."""
    return any(key.startswith(PREFIX) for key in config)


def stored_constraints(config: Mapping[str, str]) -> dict[str, Constraint]:
    """Return the constraints of a config by their names, in order."""
    names = sorted(key.removeprefix(PREFIX) for key in config if key.startswith(PREFIX))
    return {name: _decoded(name, config[PREFIX + name]) for name in names}


def _decoded(name: str, text: str) -> Constraint:
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return _unknown(name, f"{shown(text)} is stored for it")
    if values.get("version") != _VERSION:
        return _unknown(name, f"it is of version {shown(values.get('version'))}, not {_VERSION}")
    condition, on_fail = values.get("condition"), values.get("on_fail")
    existing = values.get("existing", "refuse")
    if not isinstance(condition, str):
        return _unknown(name, f"its condition is {shown(condition)}")
    if on_fail not in get_args(OnFail) or existing not in get_args(Existing):
        return _unknown(name, f"it says on_fail={shown(on_fail)}, existing={shown(existing)}")
    return Constraint(
        name=name,
        condition=condition,
        on_fail=cast("OnFail", on_fail),
        existing=cast("Existing", existing),
    )


def _unknown(name: str, why: str) -> Constraint:
    return Constraint(name=name, condition="", unknown=why)
