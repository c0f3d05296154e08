"""The rule of casts, beside pylance and DuckDB, with values at the ends of every type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._casts import RULES, family_of, rule_of
from lancekit._scan.expressions.kernels.casts import try_cast
from lancekit.errors import LancekitError
from tests.support.cast_pairs import NAMES, VALUES, comparable

REFUSED = "refused"

#: where pylance answers otherwise: "here" is refused here, "there" by pylance
DIFFERENT: dict[tuple[str, str], set[str]] = {
    # the bytes of a number in memory, which differ between machines
    ("integer", "bytes"): {"here"},
    # pylance takes 32 bits for days, and no other width
    ("integer", "date"): {"there"},
    ("date", "integer"): {"there"},
    ("time", "integer"): {"there"},
    # times of day end with the day; pylance takes 32 or 64 bits for them, and no other width
    ("integer", "time"): {"here", "there", "other"},
    # pylance has no half floats of decimals
    ("decimal", "float"): {"there"},
    # pylance multiplies doubles; 1e17 gets digits that it does not have
    ("float", "decimal"): {"there", "other"},
    # pylance writes half floats without a point
    ("float", "text"): {"other"},
    # no text is no number; an exponent is one
    ("text", "decimal"): {"here", "there", "other"},
    # a date64 is a whole day
    ("text", "date"): {"other"},
    ("timestamp", "date"): {"here", "there", "other"},
    # a number of seconds is no text of a time
    ("text", "time"): {"here", "there", "other"},
    # years -32767 to 32767 here, -262143 to 262142 there; TRY_CAST fails there
    ("date", "text"): {"here", "there", "other"},
    ("date", "timestamp"): {"there", "other"},
    ("timestamp", "text"): {"here", "there", "other"},
    ("timestamp", "time"): {"here", "there", "other"},
    ("timestamp", "timestamp"): {"there", "other"},
    # Arrow's number, beside '0 days 0 hours 0 mins 1 secs'
    ("duration", "text"): {"other"},
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder: Path = tmp_path_factory.mktemp("casts")

    @cache
    def written(source: str) -> str:
        uri = str(folder / str(list(NAMES).index(source)))
        values = VALUES[source]
        lance.write_dataset(pa.table({"id": range(len(values)), "x": values}), uri)
        return uri

    return written


def answers(dataset: Any, expression: str, count: int) -> list[Any]:
    """Return what each value becomes; values that fail are tried one by one."""
    wanted = {"x": expression}
    try:
        column = dataset.to_table(columns=wanted)["x"].combine_chunks()
        return [comparable(one) for one in column]
    except (LancekitError, OSError, ValueError):
        pass
    found: list[Any] = []
    for row in range(count):
        try:
            column = dataset.to_table(columns=wanted, filter=f"id = {row}")["x"].combine_chunks()
            found.append(comparable(column[0]))
        except (LancekitError, OSError, ValueError):
            found.append(REFUSED)
    return found


@pytest.mark.cover
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_as_pylance(table: Callable[[str], str], source: str, target: str) -> None:
    uri, values = table(source), VALUES[source]
    allowed = DIFFERENT.get((family_of(values.type), family_of(NAMES[target])), set())
    for name in ("arrow_cast", "arrow_try_cast"):
        expression = f"{name}(x, '{target}')"
        mine = answers(lk.dataset(uri), expression, len(values))
        theirs = answers(lance.dataset(uri), expression, len(values))
        for value, one, other in zip(values, mine, theirs, strict=True):
            if one != other:
                what = "here" if one == REFUSED else "there" if other == REFUSED else "other"
                assert what in allowed, (name, comparable(value), one, other)


#: types of DuckDB
DUCKDB = {
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INTEGER",
    "Int64": "BIGINT",
    "UInt8": "UTINYINT",
    "UInt16": "USMALLINT",
    "UInt32": "UINTEGER",
    "UInt64": "UBIGINT",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "Decimal128(5, 2)": "DECIMAL(5, 2)",
    "Decimal128(38, 10)": "DECIMAL(38, 10)",
    "Date32": "DATE",
    "Timestamp(Second, None)": "TIMESTAMP_S",
    "Timestamp(Millisecond, None)": "TIMESTAMP_MS",
    "Timestamp(Microsecond, None)": "TIMESTAMP",
    "Timestamp(Nanosecond, None)": "TIMESTAMP_NS",
}
#: where DuckDB has another rule: numbers are rounded to whole ones, and beyond a float is an error
_OTHER_RULES = {("float", "integer"), ("decimal", "integer"), ("float", "float")}
#: moments that DuckDB has no value for, or a name (infinity)
_DUCKDB_MOMENTS = {(1 << 63) - 1, -(1 << 63), 1 - (1 << 63), -96465292, 95026601}


@pytest.mark.parametrize("source", DUCKDB)
def test_as_duckdb(source: str) -> None:
    values = VALUES[source]
    kept = pa.array([v for v in values if comparable(v) not in _DUCKDB_MOMENTS], values.type)
    with duckdb.connect() as session:
        session.register("rows", pa.table({"x": kept}))
        for target, name in DUCKDB.items():
            pair = family_of(values.type), family_of(NAMES[target])
            moment = {"date", "timestamp"}
            if pair in _OTHER_RULES or len(moment & set(pair)) == 1 or source == target:
                continue
            if (source, target) == ("Timestamp(Nanosecond, None)", "Date32"):
                continue  # DuckDB puts the nanosecond before 1970 on the day after it
            rows = session.sql(f"SELECT TRY_CAST(x AS {name}) AS x FROM rows").to_arrow_table()
            theirs = [comparable(one) for one in rows["x"].combine_chunks().cast(NAMES[target])]
            mine = [comparable(one) for one in try_cast(kept, NAMES[target])]
            for value, one, other in zip(kept, mine, theirs, strict=True):
                if pair[1] == "decimal" and pair[0] == "float" and one is not None:
                    assert other is None or abs(one - other) < Decimal("1e-4") * abs(one) + 1
                    continue
                assert one == other, (target, comparable(value))


def test_each_pair_has_one_rule() -> None:
    assert len({(rule.source, rule.target) for rule in RULES}) == len(RULES)
    for name, kind in NAMES.items():
        assert family_of(kind) in {rule.source for rule in RULES}, name
    null = rule_of(pa.null(), pa.struct([]))
    assert null is not None
    assert null.alter
    assert rule_of(pa.struct([]), pa.int8()) is None
