"""Functions of JSON columns, which are JSONB here: values by key or path, as other types."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache, partial
from typing import TypeAlias

import pyarrow as pa

from lancekit._format.jsonb import DAMAGE, Part, damaged, whole
from lancekit._scan.expressions.kernels.function import Function, Refused, per_value

Step: TypeAlias = Callable[[Part], Sequence[Part]]

_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
_PLACE = r"-?\d+|last(?:\s*-\s*\d+)?"
_PLACES = rf"(?:{_PLACE})(?:\s+to\s+(?:{_PLACE}))?"
_STEP = re.compile(
    rf"\s*(?:[.:](?:(?P<values>\*)(?!\*)|(?P<name>\w+)|(?P<quoted>{_QUOTED}))"
    rf"|\[\s*(?:(?P<items>\*)|(?P<key>{_QUOTED})|(?P<places>{_PLACES}(?:\s*,\s*{_PLACES})*))\s*\])"
)
_FLOAT = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_POSITION = re.compile(r"\+?[0-9]+")
_INTEGERS = range(-(2**63), 2**63)
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


# ---- paths


def _items(value: Part) -> Sequence[Part]:
    items = value.items()
    return [value] if items is None else items


def _at(places: str, value: Part) -> Sequence[Part]:
    items, found = value.items() or [], list[Part]()
    for place in places.split(","):
        first, *last = (_position(one, len(items)) for one in re.split(r"\s+to\s+", place.strip()))
        if last:
            found += items[max(first, 0) : max(last[0] + 1, 0)]
        elif 0 <= first < len(items):
            found.append(items[first])
    return found


def _position(text: str, length: int) -> int:
    last, _, before = text.partition("last")
    return int(text) if last == text else length - 1 + int(before.replace(" ", "") or 0)


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Step, ...]:
    """Parse a path such as ``$.user.tags[0]``.

    Raises Refused: it is no path, or has a part that lancekit does not know.
    """
    rest, steps = path.strip(), list[Step]()
    if rest[:1] == "$":
        rest = rest[1:]
    elif re.match(r"\w", rest):  # a key may come first
        rest = f".{rest}"
    while rest.strip():
        step = _STEP.match(rest)
        if step is None:
            raise Refused(
                f"{path!r} is no path, because of {rest!r}: a path has keys and positions, such as "
                """$.user["first name"], $.tags[0], $.tags[last] and $.tags[*]"""
            )
        steps.append(_step(step))
        rest = rest[step.end() :]
    return tuple(steps)


def _step(step: re.Match[str]) -> Step:
    quoted = step["quoted"] or step["key"]
    if step["name"] or quoted:
        name = step["name"] or json.loads(quoted)
        return partial(Part.members, key=name.encode(errors="surrogatepass"))
    if step["places"]:
        return partial(_at, step["places"])
    return _items if step["items"] else Part.members


def _selected(data: bytes, path: str) -> list[Part]:
    found = [whole(data)]
    for step in _steps(path):
        found = [one for value in found for one in step(value)]
    return found


def _extract(data: bytes, path: str) -> str | None:
    """Return the text of the value that a path finds; of several values, an array."""
    texts = [value.text() for value in _selected(data, path)]
    return f"[{','.join(texts)}]" if len(texts) > 1 else next(iter(texts), None)


def _exists(data: bytes, path: str) -> bool:
    return bool(_selected(data, path))


def _array_length(data: bytes, path: str) -> int | None:
    """Return the length of the first value that a path finds; 0 if it is no array."""
    return next((len(value.items() or ()) for value in _selected(data, path)), None)


def _array_contains(data: bytes, path: str, wanted: object) -> bool:
    text = wanted if isinstance(wanted, str) else json.dumps(wanted)
    texts = {text, f'"{text}"'}
    arrays = (value.items() for value in _selected(data, path))
    return any(item.text() in texts for array in arrays for item in array or ())


# ---- values by their key


def _found(data: bytes, key: str) -> Sequence[Part]:
    """Return the value of an object's key, or of a position in an array; nothing without one."""
    value = whole(data)
    items = value.items()
    if items is None:
        return value.members(key.encode())
    at = int(key) if _POSITION.fullmatch(key) else len(items)
    return items[at : at + 1]


def _get(data: bytes, key: str) -> bytes | None:
    return next((value.encoded() for value in _found(data, key)), None)


def _typed(convert: Callable[[object, str], object], kind: pa.DataType) -> Function:
    """Return a function that converts the value of a key; null stays null."""

    def call(data: bytes, key: str) -> object:
        for text in (part.text() for part in _found(data, key)):
            return None if text == "null" else convert(json.loads(text), text)
        return None

    return _function(call, kind)


def _as_text(value: object, text: str) -> str:
    if isinstance(value, dict | list):
        raise _refused(text, "text")
    return value if isinstance(value, str) else text


def _as_float(value: object, text: str) -> float:
    if isinstance(value, int | float) or (isinstance(value, str) and _FLOAT.fullmatch(value)):
        return float(value)
    raise _refused(text, "number")


def _as_int(value: object, text: str) -> int:
    """Round fractions as the reference does: halves away from zero."""
    whole_number = isinstance(value, str) and _WHOLE.fullmatch(value)
    number = int(value) if whole_number else value  # type: ignore[call-overload]
    if not isinstance(number, int):
        number = _as_float(value, text)
    if math.isfinite(number):
        rounded = int(Decimal(number).to_integral_value(ROUND_HALF_UP))
        if rounded in _INTEGERS:
            return rounded
    raise _refused(text, "64-bit integer")


def _as_bool(value: object, text: str) -> bool:
    if isinstance(value, bool):
        return value
    found = _BOOLEANS.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise _refused(text, "boolean")
    return found


def _refused(text: str, kind: str) -> Refused:
    return Refused(
        f"{text[:60]}{'…' * (len(text) > 60)} is no {kind}. json_extract(column, path) gives any "
        "value as JSON text"
    )


def _function(kernel: Callable[..., object], kind: pa.DataType, arguments: int = 2) -> Function:
    def call(data: bytes, *others: object) -> object:
        try:
            return kernel(data, *others)
        except Refused:
            raise
        except DAMAGE as error:
            raise damaged(data, error) from error

    return Function(per_value(call, kind), ("bytes", "text", ""), arguments, arguments)


JSON_FUNCTIONS: Mapping[str, Function] = {
    "json_extract": _function(_extract, pa.string()),
    "json_exists": _function(_exists, pa.bool_()),
    "json_array_length": _function(_array_length, pa.int64()),
    "json_array_contains": _function(_array_contains, pa.bool_(), 3),
    "json_get": _function(_get, pa.large_binary()),
    "json_get_string": _typed(_as_text, pa.string()),
    "json_get_int": _typed(_as_int, pa.int64()),
    "json_get_float": _typed(_as_float, pa.float64()),
    "json_get_bool": _typed(_as_bool, pa.bool_()),
}
