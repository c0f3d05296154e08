"""Random rows, and random conditions on them that the reference understands too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from random import Random

import pyarrow as pa

__all__ = ["random_condition", "random_rows", "random_value"]

# Neither negative zeros nor what gives a NaN: the reference tells their signs apart in columns. Nor
# casts of decimals, which it moves to the literal.
FLOATS = [0.0, 1.0, -1.5, 2.0, 0.1, 2.5, float("nan")]
WORDS = ["", "a", "A", "ab", "b%", "é", "_", "a_b", "ba", " a", "12", "B", "aab"]
DAYS = ["2020-01-01", "1969-12-31", "2024-02-29", "1970-01-01", "2020-06-15"]
TIMES = [f"{day} {time}" for day in DAYS for time in ("00:00:00", "12:30:15", "23:59:59.500")]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "doy", "dow"]


def _some(
    random: Random, kind: pa.DataType, make: Callable[[], object]
) -> Callable[[int], pa.Array]:
    return lambda count: pa.array(
        [None if random.random() < 0.15 else make() for _ in range(count)], kind
    )


def random_rows(random: Random, count: int = 40) -> pa.Table:
    small = lambda: random.randint(-4, 4)  # noqa: E731
    natural = lambda: random.randint(0, 6)  # noqa: E731
    moment = lambda: dt.datetime.fromisoformat(random.choice(TIMES))  # noqa: E731
    columns = {
        "i": (pa.int64(), small),
        "k": (pa.int32(), small),
        "h": (pa.int8(), small),
        "u": (pa.uint16(), natural),
        "v": (pa.uint64(), natural),
        "f": (pa.float64(), lambda: random.choice(FLOATS)),
        "g": (pa.float32(), lambda: random.choice(FLOATS)),
        "q": (pa.decimal128(8, 2), lambda: Decimal(random.randint(-500, 500)) / 100),
        "s": (pa.string(), lambda: random.choice(WORDS)),
        "t": (pa.large_string(), lambda: random.choice(WORDS)),
        "b": (pa.bool_(), lambda: random.random() < 0.5),
        "c": (pa.bool_(), lambda: random.random() < 0.5),
        "d": (pa.date32(), lambda: dt.date.fromisoformat(random.choice(DAYS))),
        "m": (pa.timestamp("us"), moment),
        "z": (pa.timestamp("ms"), moment),
        "l": (pa.list_(pa.int64()), lambda: [random.randint(0, 3) for _ in range(natural() % 4)]),
        "r": (
            pa.struct({"x": pa.int64(), "y": pa.string()}),
            lambda: {"x": random.choice([None, small()]), "y": random.choice([None, *WORDS])},
        ),
    }
    made = {name: _some(random, *column)(count) for name, column in columns.items()}
    return pa.table({"n": pa.array(range(count)), **made})


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    # each gives the text of a value of one family, at most ``depth`` deep

    def whole(self, depth: int) -> str:
        if depth and self.random.random() < 0.4:
            a, b = self.whole(depth - 1), self.whole(depth - 1)
            return self.pick(
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"coalesce({a}, {b})", f"abs({a})",
                f"({a} % 3)", f"({a} / 2)", f"nullif({a}, 2)", f"length({self.text(depth - 1)})",
                f"greatest({a}, {b})", f"cast({a} as bigint)", "array_length(l)", "l[1]", "l[-1]",
                f"date_part('{self.pick(*UNITS)}', {self.pick('m', 'z', 'd')})",
                f"strpos(s, '{self.pick('a', 'b')}')",
                f"cast({self.pick('f', 'g', '0.5', '-1.5')} as int)",
            )  # fmt: skip
        number = str(self.random.randint(-5, 5))
        return self.pick("i", "k", "h", "u", "v", "i", "k", "r.x", "r['x']", number)

    def fraction(self, depth: int) -> str:
        if depth and self.random.random() < 0.4:
            a, b = self.fraction(depth - 1), self.fraction(depth - 1)
            return self.pick(
                f"({a} + {b})", f"({a} - {b})", f"coalesce({a}, {b})", f"abs({a})",
                f"cast({self.whole(depth - 1)} as double)", f"nullif({a}, 1.0)",
                f"(round({a}) + 0.0)", f"({self.whole(depth - 1)} * 0.5)", f"(trunc({a}) + 0.0)",
            )  # fmt: skip
        return self.pick("f", "g", "f", "q", "0.5", "-1.5", "2.0", "0.0")

    def text(self, depth: int) -> str:
        if depth and self.random.random() < 0.4:
            a = self.text(depth - 1)
            return self.pick(
                f"lower({a})", f"upper({a})", f"({a} || 'x')", f"coalesce({a}, 'a')",
                f"btrim({a})", f"reverse({a})", f"left({a}, 1)", f"right({a}, 1)",
                f"replace({a}, 'a', 'é')", f"concat({a}, {self.whole(0)})", f"lpad({a}, 3, '_')",
                f"cast({self.whole(0)} as string)", f"split_part({a}, '_', 1)", f"nullif({a}, 'a')",
                f"cast({self.pick('m', 'z', 'd', 'b', 'q')} as string)",
            )  # fmt: skip
        return self.pick("s", "t", "r.y", "s", *(f"'{word}'" for word in WORDS[:6]))

    def moment(self, depth: int) -> str:
        if depth and self.random.random() < 0.4:
            unit = self.pick("year", "month", "day", "hour", "week")
            return self.pick(f"date_trunc('{unit}', m)", "cast(d as timestamp)", "cast(m as date)")
        return self.pick(
            "d", "m", "z", "m", f"date '{self.pick(*DAYS)}'", f"timestamp '{self.pick(*TIMES)}'"
        )

    def condition(self, depth: int) -> str:
        if depth and self.random.random() < 0.5:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self.pick(
                f"({a}) AND ({b})", f"({a}) OR ({b})", f"{a} AND {b}", f"{a} OR {b}",
                f"NOT ({a})", f"({a}) IS NULL", f"({a}) IS NOT TRUE", f"({a}) IS FALSE",
                f"coalesce({a}, false)", f"({a}) = b",
            )  # fmt: skip
        family = self.random.choice([self.whole, self.whole, self.fraction, self.text, self.moment])
        a, b, c = (family(self.random.randint(0, 2)) for _ in range(3))
        operator = self.pick("=", "<>", "<", "<=", ">", ">=")
        forms = [
            f"{a} {operator} {b}", f"{a} {operator} {b}", f"{a} IS NULL", f"{a} IN ({b}, {c})",
            f"{a} NOT IN ({b}, {c})", f"{a} BETWEEN {b} AND {c}", f"({a} IS NOT DISTINCT FROM {b})",
            f"{self.whole(1)} {operator} {self.fraction(1)}", f"array_has(l, {self.whole(0)})",
            self.pick("b", "c", "b = c", "b <> true", "b IS NULL"),
        ]  # fmt: skip
        if family == self.text:
            pattern = self.pick("a%", "%b", "_", "%\\_%", "", "%", "a_b")
            forms += [
                f"{a} LIKE '{pattern}'", f"{a} NOT ILIKE '{pattern}'", f"starts_with({a}, 'a')",
                f"regexp_like({a}, '^[ab]+$')", f"contains({a}, '_')", f"{a} LIKE {b}",
            ]  # fmt: skip
        return self.random.choice(forms)


def random_condition(random: Random, depth: int = 2) -> str:
    return _Maker(random).condition(depth)


def random_value(random: Random, depth: int = 2) -> str:
    """Return an expression of any of the families."""
    maker = _Maker(random)
    return random.choice([maker.whole, maker.fraction, maker.text, maker.moment])(depth)
