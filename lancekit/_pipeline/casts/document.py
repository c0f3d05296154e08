"""The documentation page about casts, generated from the tables of cast rules."""

from __future__ import annotations

from lancekit._casts import RULES as CASTS
from lancekit._casts import CastRule
from lancekit._pipeline.casts.rules import RULES

_INTRODUCTION = """\
# Casts

Rows that are written, appended or merged are brought to the dataset's own types. Only what loses
nothing is cast, by the first row of this table that fits; a value that would change is an error
that names its column, row and value. Everything else is an error that lists only the differences.

Columns are found by name, in any order. A column may say that it takes nulls where the dataset's
does not, as long as it has none.

| from | to | when |
|---|---|---|
"""

_CASTS = """
## `CAST`, `update` and `alter_columns`

`CAST`, `TRY_CAST`, `arrow_cast`, `arrow_try_cast`, `to_timestamp`, `to_date`, and the values of
`update` and `add_columns` follow this table. `alter_columns` makes the casts that are
marked, as in pylance. A value beyond the target's range is an error, or null from `TRY_CAST`: no
value wraps around. `lancekit._casts` holds the table as data.

| from | to | the value | `alter_columns` |
|---|---|---|---|
| null | any type | null | yes |
"""

_DIGITS = {
    "kept": "stays as it is",
    "cut": "is cut off after the target's last digit",
    "rounded": "is rounded to the target's scale, halves away from zero",
    "nearest": "becomes the nearest float",
    "read": "is read",
    "written": "is written",
}

_AFTER_CASTS = """
- A number becomes the count of a unit: `CAST(1 AS timestamp)` is one microsecond after 1970. A
  number outside of one day is no time.
- Floats beyond the range of a narrower float become infinite, as in pylance.
- A timestamp without a zone, or a date, is local time of the target's zone.
- Text of a moment may end in `Z` or an offset. For a type without a zone it then gives the time in
  UTC. A date takes the date of a text that has a time of day. Digits beyond the target's unit are
  cut off, and blanks around numbers and moments do not count.
- Years before -32767 and after 32767 have no text.
- `alter_columns` to an extension type, such as `pa.uuid()`, casts to its storage type. To any other
  type, it makes the column a plain one. JSON and blobs have a form of their own: only a column of
  null becomes one of them, and they become nothing else.
"""

_VALUES = """
## With a schema

`schema=` says which columns the rows have, and of what types: rows of any kind are cast to it by
this table, and then to the dataset's. Columns that it does not have, or that the rows do not have,
are an error; keys that no dict of a list has are null, and index levels that it does not name are
left out.

## Python's values

What has a type keeps it: Arrow data, NumPy's arrays, the typed columns of pandas and Polars. Lists
of dicts, dicts of lists and pandas' columns of objects hold Python's values, which first become
what holds all of them as they are, and are then cast by the table above to the dataset's types or
those of `schema=`. So nanoseconds stay where there are some, and a date among datetimes is its
midnight; a fraction that goes into a column of whole numbers, a time of day into one of dates, or a
field into a struct that lacks it is an error that names the column, row and value.

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
Python has but one width of floats. Where the dataset or `schema=` has a narrower one, floats in
Python's rows, and those in arrays within them, are rounded to it, in every call that takes rows and
as SQL rounds them; what would become infinite is an error. A whole number among them must stay what
it is. Columns that have a type, such as those of a frame, are cast by the table above: a float that
would change is an error like any other value.

## Dictionaries

Values of a dictionary are what the format has a plain name for: numbers, booleans, text and bytes.
A new column of a dictionary of dates, times, timestamps, durations, decimals, `fixed_size_binary`
or nested values is an error, in every version of data files, because no release could read it:
cast the column to the type of the values. Where the dataset has that plain type already, or
`schema=` names it, such a dictionary is stored as plain values, by the table above.

Keys of 8 or 16 bits must tell apart all values of a data file. Where the categories of incoming
rows are more, values that no row has are left out, and rows with further values go to another file.
There is no other file for new columns, which are beside all rows of a fragment, for the list of one
row, and for one put into a [write-ahead log](mem-wal.md): too many values are an error there.

## The index of a pandas frame

A level that has a name is a column of that name, behind the frame's own. One that has none, or the
name of a column, is `__index_level_0__`, or the next of these that is free. Row numbers without a
name are left out: a range, and, with a warning, other whole numbers in an index of one level,
unless the dataset or `schema=` has the column. A frame's `attrs` are not kept.
"""


def document() -> str:
    """Render the table of casts: the text of ``docs/casts.md``."""
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
