"""Functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import scalar_of
from lancekit._casts.kernels import nearest
from lancekit._scan.expressions.kernels.function import Function, constant_of, per_value, unary
from lancekit._scan.expressions.kernels.operators import Value

__all__ = ["NUMBER_FUNCTIONS"]


def _double(value: Value) -> Value:
    """Compute with doubles, or with single floats where such are given."""
    return value if pt.is_floating(value.type) else nearest(value, pa.float64())


def _of_double(kernel: Callable[..., Value], count: int = 1) -> Function:
    return Function(lambda *v: kernel(*map(_double, v)), ("number",), count, count)


def _isnan(value: Value) -> Value:
    return pc.is_nan(_double(value))


def _iszero(value: Value) -> Value:
    return pc.equal(_double(value), 0.0)


def _nanvl(value: Value, other: Value) -> Value:
    return pc.if_else(pc.is_nan(value), _double(other), value)


#: no double has more, on either side of the point; Arrow would multiply by ten so many times
_MOST_DIGITS = 400


def _round(value: Value, digits: Value | None = None, *, mode: str) -> Value:
    places = 0 if digits is None else constant_of(digits)
    if not isinstance(places, int):
        raise pa.ArrowNotImplementedError("the number of digits is a whole number")
    places = max(-_MOST_DIGITS, min(places, _MOST_DIGITS))
    if pt.is_decimal128(value.type):
        kind = pa.decimal128(value.type.precision, max(0, min(places, value.type.scale)))
        wide = pc.cast(value, pa.decimal128(38, value.type.scale))
        return pc.cast(pc.round(wide, places, round_mode=mode), kind)
    return pc.round(_double(value), places, round_mode=mode)


def _log(value: Value, other: Value | None = None) -> Value:
    """Return the logarithm to the base 10, or to the base that stands first."""
    if other is None:
        return pc.log10(_double(value))
    return pc.logb(_double(other), _double(value))


def _cbrt(value: Value) -> Value:
    root = pc.power(pc.abs(_double(value)), 1 / 3)
    # a power is off by a little, and the root of a cube is a whole number
    whole = pc.round(root)
    root = pc.if_else(
        pc.equal(pc.multiply(whole, pc.multiply(whole, whole)), pc.abs(value)), whole, root
    )
    return pc.multiply(root, pc.cast(pc.sign(value), root.type))


def _power(value: Value, exponent: Value) -> Value:
    return pc.power(_double(value), _double(exponent))


_LAST_FACTORIAL = 20


def _factorial(number: int) -> int:
    if number > _LAST_FACTORIAL:
        raise OverflowError(f"the factorial of {number} has more than 64 bits")
    return math.factorial(number)


_POWER = Function(_power, ("number",), 2, 2)

NUMBER_FUNCTIONS: Mapping[str, Function] = {
    "abs": unary(pc.abs_checked, "number"),
    "signum": unary(lambda v: pc.cast(pc.sign(_double(v)), _double(v).type), "number"),
    "round": Function(partial(_round, mode="half_towards_infinity"), ("number",), 1, 2),
    "trunc": Function(partial(_round, mode="towards_zero"), ("number",), 1, 2),
    "floor": unary(pc.floor, "number"),
    "ceil": unary(pc.ceil, "number"),
    "power": _POWER,
    "pow": _POWER,
    "sqrt": _of_double(pc.sqrt),
    "cbrt": _of_double(_cbrt),
    "exp": _of_double(pc.exp),
    "ln": _of_double(pc.ln),
    "log": Function(_log, ("number",), 1, 2),
    "log2": _of_double(pc.log2),
    "log10": _of_double(pc.log10),
    **{
        name: _of_double(getattr(pc, name))
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        )
    },
    "atan2": _of_double(pc.atan2, 2),
    "cot": _of_double(lambda v: pc.divide(1.0, pc.tan(v))),
    "degrees": _of_double(lambda v: pc.multiply(v, 180 / math.pi)),
    "radians": _of_double(lambda v: pc.multiply(v, math.pi / 180)),
    "pi": Function(lambda: scalar_of(math.pi), (), 0, 0),
    "gcd": Function(per_value(math.gcd, pa.int64()), ("number",), 2, 2),
    "lcm": Function(per_value(math.lcm, pa.int64()), ("number",), 2, 2),
    "factorial": unary(per_value(_factorial, pa.int64()), "number"),
    "isnan": unary(_isnan, "number"),
    "iszero": unary(_iszero, "number"),
    "nanvl": Function(_nanvl, ("number",), 2, 2),
}
