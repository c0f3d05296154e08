# ruff: noqa: E501  (each line is one line of a page)
"""Fifty tasks of everyday work, each with the line that users of other tools type first.

Each line is that of the named page of documentation, with this project's names of table and columns.
A line works (``check`` holds of its result ``_``) or is answered: its error has the line ``answer``,
which runs.  ``python -m tests.support.first_lines`` prints what each line does.
"""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PANDAS = "https://pandas.pydata.org/docs/"
POLARS = "https://docs.pola.rs/api/python/stable/reference/"
DUCKDB = "https://duckdb.org/docs/stable/"
DELTA = "https://docs.delta.io/latest/"
DELTA_RS = "https://delta-io.github.io/delta-rs/"
SPARK = "https://spark.apache.org/docs/latest/api/python/reference/pyspark.sql/api/"
ICEBERG = "https://py.iceberg.apache.org/"
PYLANCE = "https://lancedb.github.io/lance/"
LANCEDB = "https://lancedb.github.io/lancedb/"
LAKEFS = "https://docs.lakefs.io/"


@dataclass(frozen=True, slots=True)
class Task:
    """A task, the page and the line that a user takes from there, and what is right.

    Attributes
    ----------
    task
        What the user wants.
    page
        The page of another tool's documentation.
    line
        The line, with ``ds``, ``uri``, ``df`` (pandas), ``rows`` (Arrow), ``lk``, ``pd``, ``pl``.
    check
        An expression that is true of the line's result ``_``; empty if an error is right.
    answer
        The line that the error shows; it runs.
    """

    task: str
    page: str
    line: str
    check: str = ""
    answer: str = ""


TASKS = [
    # ---- look at a table
    Task("rows and columns", PANDAS + "reference/api/pandas.DataFrame.shape.html", "ds.shape", "_ == (20, 4)"),
    Task("names of columns", PANDAS + "reference/api/pandas.DataFrame.columns.html", "ds.columns", "list(_) == ['id', 'name', 'price', 'day']"),
    Task("types of columns", PANDAS + "reference/api/pandas.DataFrame.dtypes.html", "ds.dtypes", "str(_['price']) == 'double'"),
    Task("first rows", PANDAS + "reference/api/pandas.DataFrame.head.html", "ds.head()", "_.num_rows == 5"),
    Task("last rows", PANDAS + "reference/api/pandas.DataFrame.tail.html", "ds.tail(3)", answer="ds[-5:]"),
    Task("random rows", PANDAS + "reference/api/pandas.DataFrame.sample.html", "ds.sample(3)", "_.num_rows == 3"),
    Task("summary statistics", PANDAS + "reference/api/pandas.DataFrame.describe.html", "ds.describe()", answer="ds.to_pandas().describe()"),
    Task("counts of each value", PANDAS + "reference/api/pandas.Series.value_counts.html", "ds['name'].value_counts()", answer="ds['name'].statistics().top"),
    Task("rows ten to fifteen", PANDAS + "user_guide/indexing.html", "ds[10:15]", "_['id'].to_pylist() == [10, 11, 12, 13, 14]"),
    Task("two columns", PANDAS + "user_guide/indexing.html", "ds[['id', 'price']]", "_.column_names == ['id', 'price']"),
    Task("rows that match", PANDAS + "reference/api/pandas.DataFrame.query.html", "ds.query('price > 3')", answer="ds.to_table(filter='price > 3')"),
    Task("rows that match, by a mask", PANDAS + "user_guide/indexing.html", "ds[ds['price'] > 3]", answer="ds.to_table(filter=\"price > 3\")"),
    Task("a column of this name?", PANDAS + "user_guide/indexing.html", "'price' in ds", "_ is True"),
    Task("iterate over rows", PANDAS + "reference/api/pandas.DataFrame.iterrows.html", "[row for row in ds]", answer="ds.to_batches()"),
    Task("sort", PANDAS + "reference/api/pandas.DataFrame.sort_values.html", "ds.sort_values('price')", answer="lk.sql('SELECT * FROM ds ORDER BY price')"),
    Task("mean of each group", PANDAS + "reference/api/pandas.DataFrame.groupby.html", "ds.groupby('name')['price'].mean()", answer="lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"),
    # ---- change a table
    Task("drop a column", PANDAS + "reference/api/pandas.DataFrame.drop.html", "ds.drop(columns=['price'])", answer="ds.drop_columns(['price'])"),
    Task("rename a column", PANDAS + "reference/api/pandas.DataFrame.rename.html", "ds.rename(columns={'price': 'cost'})", answer="ds.alter_columns({'path': 'price', 'name': 'new_name'})"),
    Task("add a column", PANDAS + "user_guide/dsintro.html", "ds['tax'] = 1", answer="ds.add_columns({'tax': '1'})"),
    Task("set a column to a number", DELTA_RS + "usage/update-table/", "ds.update({'price': 0})", "ds.to_table()['price'].to_pylist() == [0.0] * 20"),
    Task("set a column to a text", DELTA_RS + "usage/update-table/", "ds.update({'name': 'closed'})", answer="ds.update({'name': \"'closed'\"})"),
    Task("delete some keys", PYLANCE + "guide/read_and_write/", "ds.delete([1, 2])", answer="ds.delete('id IN (1, 2)')"),
    Task("append", ICEBERG + "api/", "ds.append(df)", answer="ds.insert(df)"),
    Task("upsert", ICEBERG + "api/", "ds.upsert(df)", answer="ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"),
    Task("append rows with a new column", DELTA_RS + "usage/writing/", "lk.write_dataset(df.assign(new=1), uri, mode='append', schema_mode='merge')", "'new' in _.schema.names"),
    Task("merge with a message", PYLANCE + "guide/read_and_write/", "ds.merge_insert('id').when_not_matched_insert_all().execute(df, commit_message='late rows')", "'late rows' in str(ds.versions()[-1].metadata) or 'late rows' in str(ds.versions().to_pandas())"),
    # ---- go back
    Task("history of a table", DELTA + "delta-utility.html", "ds.history()", answer="ds.versions()"),
    Task("history as a frame", DELTA_RS + "usage/examining-table/", "ds.versions().to_pandas()", "len(_) == 2"),
    Task("as of a version", DELTA + "delta-batch.html", "lk.dataset(uri, version=1)", "_.version == 1"),
    Task("as of yesterday", DELTA + "delta-batch.html", "lk.dataset(uri, version='2020-01-01')", answer="lk.dataset(uri, asof='2020-01-01')"),
    Task("restore a version", DELTA + "delta-utility.html", "ds.restore(1)", "ds.count_rows() == 10"),
    Task("what changed last", LAKEFS + "reference/cli.html", "ds.diff()", "_ is not None"),
    Task("remove old files", DELTA + "delta-utility.html", "ds.vacuum()", answer="ds.cleanup_old_versions()"),
    Task("compact small files", DELTA_RS + "usage/optimize/small-file-compaction-with-optimize/", "ds.optimize.compact()", answer="ds.optimize.compact_files()"),
    Task("the newest version again", PYLANCE + "guide/tags_and_branches/", "ds.checkout_version(1).latest()", "_.version == 2"),
    # ---- branches and tags
    Task("make a branch", LAKEFS + "howto/branch.html", "ds.branches.create('trial')", "'trial' in ds.branches.names()"),
    Task("open a branch", LAKEFS + "howto/branch.html", "ds.branches['old']", "_.branch == 'old'"),
    Task("open a branch by name", PYLANCE + "guide/tags_and_branches/", "lk.dataset(uri, branch='old')", "_.branch == 'old'"),
    Task("open a tag", PYLANCE + "guide/tags_and_branches/", "ds.tags['first']", "_.version == 1"),
    Task("a copy for a colleague", PYLANCE + "guide/tags_and_branches/", "ds.deep_clone(str(folder / 'copy.lance'))", "_.count_rows() == 20"),
    # ---- in and out
    Task("a Polars frame", POLARS + "api/polars.from_arrow.html", "ds.to_polars()", "_.shape == (20, 4)"),
    Task("lazy in Polars", POLARS + "api/polars.scan_parquet.html", "lk.scan_polars(ds).filter(pl.col('price') > 3).collect()", "_.height == 16"),
    Task("a frame made of it", POLARS + "dataframe/index.html", "pl.DataFrame(ds)", "_.shape == (20, 4)"),
    Task("query in DuckDB", DUCKDB + "clients/python/overview.html", "duckdb.sql('SELECT count(*) FROM ds').fetchall()", "_ == [(20,)]"),
    Task("SQL as a frame", DUCKDB + "clients/python/conversion.html", "lk.sql('SELECT * FROM ds').df()", "len(_) == 20"),
    Task("SQL in Polars", DUCKDB + "clients/python/conversion.html", "lk.sql('SELECT * FROM ds').pl()", "_.height == 20"),
    Task("write a CSV file", PANDAS + "reference/api/pandas.DataFrame.to_csv.html", "ds.to_csv(str(folder / 'x.csv'))", answer="ds.export('x.csv')"),
    Task("read a CSV file", PANDAS + "reference/api/pandas.read_csv.html", "lk.read_csv(str(folder / 'in.csv'))", "lk.write_dataset(_, 'memory://read-csv').count_rows() == 10"),
    Task("conditions as objects", POLARS + "expressions/index.html", "ds.to_table(filter=lk.col('price') > 3)", "_.num_rows == 16"),
    Task("connect to a folder", LANCEDB + "basic/", "lk.connect(str(folder))", answer="lk.dataset(uri)"),
]  # fmt: skip


def _frame() -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    days = pd.to_datetime(["2026-11-02", "2026-11-03"] * 10)
    return pd.DataFrame(
        {"id": range(20), "name": ["a", "b"] * 10, "price": np.arange(20.0), "day": days}
    )


@functools.cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """Return a folder with the table and files of `world`, which is copied: that is quicker."""
    import lancekit as lk

    made = tempfile.TemporaryDirectory()
    folder, frame = Path(made.name), _frame()
    ds = lk.write_dataset(frame[:10], folder / "t.lance", primary_key="id")
    ds.insert(frame[10:])
    ds.tags.create("first", 1)
    ds.create_branch("old", 1)
    for name in ("in", "rows"):
        frame[:10].to_csv(folder / f"{name}.csv", index=False)
        frame[:10].to_parquet(folder / f"{name}.parquet")
    return made


def world(folder: Path) -> dict[str, object]:
    """Return the names that the lines use, with a new table of two versions in ``folder``."""
    import collections
    import copy
    import datetime
    import pickle

    import duckdb
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    import lancekit as lk

    shutil.copytree(_template().name, folder, dirs_exist_ok=True)
    uri = str(folder / "t.lance")
    ds = lk.dataset(uri)
    df = _frame()[15:].assign(id=range(18, 23))
    rows = pa.Table.from_pandas(df, preserve_index=False)
    return {"lk": lk, "pd": pd, "pl": pl, "pa": pa, "np": np, "duckdb": duckdb, "folder": folder} | {
        "uri": uri, "ds": ds, "df": df, "rows": rows, "pc": pc, "datetime": datetime,
        "copy": copy, "pickle": pickle, "collections": collections,
    }  # fmt: skip


def outcome(task: Task, folder: Path) -> str:
    """Return ``"works"``, ``"answered"``, or what went wrong."""
    names = world(folder)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            try:
                exec(compile(f"_ = {task.line}", "<line>", "exec"), names)
            except SyntaxError:
                exec(compile(task.line, "<line>", "exec"), names)
        except Exception as error:
            if task.answer and task.answer in str(error):
                return "answered"
            return f"{type(error).__name__}: {error}"
        if not task.check:
            return f"no error; should answer {task.answer}"
        try:
            return "works" if eval(task.check, names) else f"check fails: {names['_']!r}"
        except Exception as error:
            return f"check fails: {type(error).__name__}: {error}"


def main() -> None:
    counts: dict[str, int] = {}
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(task, Path(folder))
        kind = found if found in {"works", "answered"} else "fails"
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{kind:8}  {task.line}" + (f"\n          {found[:200]}" if kind == "fails" else ""))
    print(counts)


if __name__ == "__main__":
    main()
