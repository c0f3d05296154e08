"""``python -m tests.support.function_list``: the list of functions in `docs/filters.md`."""

from __future__ import annotations

from collections.abc import Mapping

from lancekit._scan.expressions.calls import BY_SYNTAX
from lancekit._scan.expressions.kernels.function import ANY_NUMBER, Function
from lancekit._scan.expressions.kernels.functions import CHOICES
from lancekit._scan.expressions.kernels.json_values import JSON_FUNCTIONS
from lancekit._scan.expressions.kernels.lists import LIST_FUNCTIONS, NUMBER_FUNCTIONS
from lancekit._scan.expressions.kernels.temporal import TIME_FUNCTIONS
from lancekit._scan.expressions.kernels.text import TEXT_FUNCTIONS

_GROUPS: Mapping[str, Mapping[str, Function]] = {
    "Choices": CHOICES,
    "Text": TEXT_FUNCTIONS,
    "Numbers": NUMBER_FUNCTIONS,
    "Dates and times": TIME_FUNCTIONS,
    "Lists": LIST_FUNCTIONS,
    "JSON": JSON_FUNCTIONS,
}


def _usage(name: str, function: Function) -> str:
    """Return the signature of a function, with optional arguments in brackets."""
    families, most = function.families, min(function.most, max(function.least, 1) + 2)
    args = [(families[min(i, len(families) - 1)] or "value") for i in range(most)]
    needed = ", ".join(args[: function.least])
    more = "".join(f"[, {arg}]" for arg in args[function.least :])
    return f"`{name}({needed}{', ...' if function.most == ANY_NUMBER else more})`"


def function_list() -> str:
    """Return the functions, one line per group."""
    lines = [
        f"- {title}: {', '.join(_usage(*item) for item in table.items())}."
        for title, table in _GROUPS.items()
    ]
    others = ", ".join(f"`{name}`" for name in BY_SYNTAX)
    return "\n".join([*lines, f"- Written like functions: {others}."])


if __name__ == "__main__":
    print(function_list())
