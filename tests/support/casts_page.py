"""The documentation page about casts, generated from the tables of cast rules."""

from __future__ import annotations

from lancekit._casts import RULES as CASTS
from lancekit._casts import CastRule
from lancekit._pipeline.casts.rules import RULES

_INTRODUCTION = """\
# Casts

Rows that are written, appended or merged are cast to the dataset's types, but only without loss.
The first row of this table that fits decides. A value that would change is an error, with its
column, row and value. Every other difference of types is an error that lists only the differences.

Columns are matched by name, in any order. A nullable column can be written to a column that is not
nullable, as long as it has no nulls.

| from | to | when |
|---|---|---|
"""

_CASTS = """
## `CAST`, `update` and `alter_columns`

This table applies to `CAST`, `TRY_CAST`, `arrow_cast`, `arrow_try_cast`, `to_timestamp` and
`to_date`. It also applies to the values of `update` and `add_columns`. As in pylance,
`alter_columns` makes the marked casts. A value beyond the target's range is an error, or null from
`TRY_CAST`: no value wraps around. `lancekit._casts` has the table as data.

| from | to | the value | `alter_columns` |
|---|---|---|---|
| null | any type | null | yes |
"""

_DIGITS = {
    "kept": "is unchanged",
    "cut": "is cut off after the target's last digit",
    "rounded": "is rounded to the target's scale, halves away from zero",
    "nearest": "becomes the nearest float",
    "read": "is read",
    "written": "is written",
}

_AFTER_CASTS = """
- A number becomes the count of a unit: `CAST(1 AS timestamp)` is one microsecond after 1970. A
  number outside of one day is not a valid time.
- A number beyond the range of a float becomes infinite in a `CAST`, as in pylance. As a new value
  of a column (`update`, `replace_columns`, `alter_columns`) it is an error.
- SQL text that gives fractions for an integer column warns, and stores the whole part, as pylance
  does. Expressions of `lk.col` and constants are refused: `(lk.col("i") / 2).floor()`.
- A timestamp without a zone, or a date, is local time of the target's zone.
- Text of a moment can end in `Z` or an offset. For a type without a zone, the result is then the
  time in UTC. A date takes only the date of a text with a time of day. Digits beyond the target's
  unit are cut off, and blanks around numbers and moments are ignored.
- Years before -32767 and after 32767 cannot be written as text.
- `alter_columns` to an extension type, such as `pa.uuid()`, casts to its storage type. To any other
  type, it makes the column a plain one. JSON and blobs have special storage forms. They cannot
  become another type, and only a column of null can become JSON or blobs.
"""

_VALUES = """
## With a schema

`schema=` declares the columns of the rows and their types. Rows of any kind are cast to it by this
table, and then to the dataset's types. Columns that only one of the schema and the rows has are an
error. Keys that no dict of a list has become nulls, and index levels that the schema lacks are
dropped.

## Python's values

Data with types keeps them: Arrow data, NumPy arrays, the typed columns of pandas and Polars. Lists
of dicts, dicts of lists and pandas columns of objects hold Python values. Such values first get a
type that holds every value exactly. The table above then casts them to the dataset's types or to
`schema=`. So nanoseconds are kept, and a date among datetimes becomes its midnight.

Three cases are errors, with the column, row and value:

- a fraction in a column of integers,
- a time of day in a column of dates,
- a field that a struct lacks.

| values | become |
|---|---|
"""

_PYTHON = (
    ("`bool`, `str`, `bytes`", "the same; never one another"),
    (
        "`int`, whole numbers of NumPy",
        "`int64`, `uint64` if they do not fit; NumPy's own width if all have it",
    ),
    ("`float`, or with whole numbers among them", "`double`, or NumPy's own width"),
    ("`Decimal`, or with whole numbers among them", "`decimal128`, `decimal256`"),
    ("`date`", "`date32`"),
    (
        "`datetime`, `pandas.Timestamp`, `numpy.datetime64`, or with dates among them",
        "`timestamp[us]`, or `[ns]` if any has nanoseconds; all with a time zone, or none",
    ),
    ("`time`, without a time zone", "`time64[us]`"),
    (
        "`timedelta`, `pandas.Timedelta`, `numpy.timedelta64`",
        "`duration[us]`, or `[ns]` if any has nanoseconds",
    ),
    ("`UUID`", "`arrow.uuid`, or its bytes if the column holds bytes"),
    ("lists, tuples, sets, arrays", "a list; a map of pairs, if the column is one"),
    ("dicts", "a struct with every field that occurs; a map, if the column is one"),
    ("`None`, `pandas.NA`, `NaT`; NaN in a column of objects", "null"),
)

_MORE = """
Python has only one width of floats. If the dataset or `schema=` has a narrower one, floats in
Python's rows, and in arrays within these rows, are rounded to it. Every call that takes rows does
this, and rounds like SQL. A float that would become infinite is an error. An integer among the
floats must keep its value. The table above casts typed columns, such as the columns of a frame. A
float there that would change is an error, like any other value.

## Dictionaries

The values of a dictionary can have a type with a plain name in the format: numbers, booleans, text
and bytes. In a new column, dictionaries of dates, times, timestamps, durations, decimals,
`fixed_size_binary` or nested values are an error. This holds for every version of data files,
because no release could read them. Cast such a column to the type of the values. If the dataset or
`schema=` has that plain type, the dictionary is stored as plain values, by the table above.

Keys of 8 or 16 bits must distinguish all values of a data file. If the incoming rows have more
categories, unused values are dropped, and rows with further values go to another file. The same
holds for a [write-ahead log](../mem-wal.md). A new column belongs to all rows of a fragment, and
the list of a single row to one file: there, too many values are an error.

## The index of a pandas frame

A level with a name becomes a column of that name, after the frame's own columns. A level without a
name, or with the name of a column, becomes `__index_level_0__`, or the next free name of this form.
Row numbers without a name are dropped: a range, and, with a warning, other integers in an index of
one level. They are kept if the dataset or `schema=` has the column. A frame's `attrs` are dropped.
"""


def document() -> str:
    """Render the table of casts: the text of ``docs/reference/casts.md``."""
    rows = [f"| {rule.source} | {rule.target} | {rule.condition} |\n" for rule in RULES]
    python = [f"| {values} | {kinds} |\n" for values, kinds in _PYTHON]
    casts = [_row(rule) for rule in CASTS]
    return "".join([_INTRODUCTION, *rows, _CASTS, *casts, _AFTER_CASTS, _VALUES, *python, _MORE])


def _row(rule: CastRule) -> str:
    words = _DIGITS[rule.digits]
    if rule.beyond == "infinite":
        words += ", infinite if it is beyond the range"
    if rule.via is not None:
        words += ", as the count of the unit"
    return f"| {rule.source} | {rule.target} | {words} | {'yes' if rule.alter else ''} |\n"
