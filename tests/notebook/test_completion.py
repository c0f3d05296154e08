"""What Tab offers, where, and that it asks for next to nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter

import lancekit as lk
from lancekit._notebook import offers
from lancekit._notebook.completion import complete
from lancekit._notebook.offers import VALUES_OF
from tests.support.faults import Call, Faults, injected
from tests.support.shells import ipython

ROWS = {
    "dep_delay": [1],
    "day": [2],
    "odd name": [3],
    "s": [{"y": 1}],
    'ev"il': [1],
    "x\u202e": [1],
}
IN_SQL = ("dep_delay", "day", "`odd name`", "s", "s.y")
NAMES = ("dep_delay", "day", "odd name", "s", "s.y")

#: a text, and what is offered at its end
PLACES: dict[str, tuple[str, ...] | None] = {
    "x = len(ds.to_pan": ("to_pandas",),
    "ds.__len": ("__len__",),
    "ds.nosuch": None,
    "'ds.to_pan": None,
    "# ds.to_pan": None,
    "others.ds.to_pan": None,
    "other.to_pan": None,
    'ds.checkout_version("': ("jan",),
    "ds.checkout_version('j": ("jan",),
    "ds.checkout_version(": ("2", "1", '"jan"'),
    "ds.checkout_version(1": ("1",),
    'ds.checkout_version(("t': ("try/out",),
    'ds.create_branch("new", branch="': ("try/out",),
    'ds.to_table(filter="': IN_SQL,
    'ds.to_table(filter="day > 1 and `o': ("`odd name`",),
    'ds.to_table(["day"], filter="s.': ("s.y",),
    'ds.to_table(columns=["day", "': NAMES,
    'ds.to_table(\n    limit=3,  # "("\n    columns=["d': ("dep_delay", "day"),
    'ds.to_table(columns={"new": "d': ("dep_delay", "day"),
    'ds.checkout_version(1).to_table(filter=r"da': ("day",),
    'ds.merge_insert("': NAMES,
    'ds.merge_insert("day").when_matched_update_all("': tuple(
        f"{side}.{name}" for side in ("source", "target") for name in IN_SQL
    ),
    'ds.merge_insert("day").when_matched_update_all("de': ("source.dep_delay", "target.dep_delay"),
    'ds.merge_insert("day").when_matched_update_all("source.d': (
        "source.dep_delay",
        "source.day",
    ),
    'ds.merge_insert("day").when_matched_update_all("source.day > target.s.': ("target.s.y",),
    'ds.merge_insert("day").when_not_matched_by_source_delete("de': ("dep_delay",),
    'ds.add_columns({"': None,
    'ds.add_columns({"n": "': IN_SQL,
    'ds.add_columns({"n": "day + `o': ("`odd name`",),
    'ds.add_columns({"n": "day", "d': None,
    'ds.add_columns({"n": "day", "m": "dep_': ("dep_delay",),
    'ds.update({"day": "o': None,
    'ds.update({"day": "`o': ("`odd name`",),
    'ds.alter_columns({"path": "o': ("odd name",),
    'ds.update({"d': ("dep_delay", "day"),
    'ds.update({"day": "1"}, where="de': ("dep_delay",),
    "f(ds.to_table(columns=['da": ("day",),
    'ds["': NAMES,
    "ds['": (*NAMES[:4], 'ev"il', "s.y"),
    'ds.indices["': ("day_idx",),
    'ds.versions["': None,
    'ds.tags.delete("': ("jan",),
    'ds.explore("': ("jan",),
    'ds.explore(against="': ("jan",),
    'ds.plot.columns("': ("jan",),
    'ds.plot.columns("jan", columns=["da': ("day",),
    'ds.branches.delete("': ("try/out",),
    'ds.drop_index("': ("day_idx",),
    'ds.optimize.optimize_indices(index_names=["': ("day_idx",),
    'ds.create_scalar_index("day", "B': ("BTREE", "BITMAP", "BLOOMFILTER"),
    'ds.create_scalar_index("day", index_type="z': ("ZONEMAP",),
    'ds.create_index("v", "IVF_P': ("IVF_PQ",),
    'ds.create_index("v", metric="c': ("cosine",),
    'ds.branches.merge("try/out", conflicts="': ("fail", "ours", "theirs"),
    'ds.branches.merge("try/out", by="': ("cell", "row"),
    'ds.branches.merge("try/out", on="': NAMES,
    'ds.merge_insert("day").dedupe("': ("first", "last"),
    'ds.merge_insert("day").dedupe(by="da': ("day",),
    'ds.insert(rows, mode="': ("create", "append", "overwrite"),
    'ds.diff(1).to_table(names="': ("lance", "delta"),
    'lk.write_dataset(rows, "x", mode="a': ("append",),
    'lk.write_dataset(rows, "x", "o': ("overwrite",),
    'write_dataset(rows, "x", mode="a': ("append",),
    'lk.stream_sink(ds, mode="': ("append", "merge"),
    "lk.options.engine = '": ("auto", "local", "spark"),
    'lk.options.optimize_for="s': ("scan", "size"),
    'lk.options.nosuch = "': None,
    'with lk.options(provenance="n': ("names",),
    'other.write_dataset(rows, mode="': None,
    'open("x", mode="': None,
    'ds.tags["': ("jan",),
    "ds.tags['j": ("jan",),
    'ds.branches["t': ("try/out",),
    'ds.tags["jan"].to_table(columns=["da': ("day",),
    'ds.restore("': ("jan",),
    "ds.restore(": ("2", "1", '"jan"'),
    'lk.dataset(path, branch="': ("try/out",),
    'lk.dataset(path, version="': ("jan",),
    "lk.dataset(path, version=": ("2", "1", '"jan"'),
    'lk.dataset(path, "j': ("jan",),
    'lk.dataset(uri=path, branch="t': ("try/out",),
    'lk.dataset(nosuch, branch="': None,
    'lk.dataset("/no/such", branch="': None,
    'lk.dataset("s3://bucket/x", branch="': None,
    'lk.col("': NAMES,
    'lk.col("o': ("odd name",),
    "x = lk.source('da": ("day",),
    'ds.to_table(filter=lk.col("da': ("day",),
    'lk.col("day", "': None,
    'lk.sql("SELECT * FROM ': ("arrow", "ds", "frame", "result"),
    'lk.sql("SELECT * FROM d': ("ds",),
    'lk.sql("""SELECT *\nFROM ds WHERE d': ("dep_delay", "day", "ds"),
    "lk.sql(\"SELECT * FROM ds VERSION AS OF '": ("jan",),
    "lk.sql('SELECT * FROM ds VERSION AS OF ": ("2", "1"),
    'lk.sql("SELECT * FROM ds", "': None,
    'ds.sql("SELECT * FROM ': None,
    "%lance hi": ("history",),
    "%lance history ": ("ds",),
    "%lance branches ds@t": ("try/out",),
    "%lance diff ds ": ("jan",),
    "%lance blame ds da": ("day",),
    "%%lance --": ("--preview", "--limit", "--at", "--include-mem-wal"),
    "%%lance --at 1 -": ("--preview", "-o", "--limit", "--at", "--include-mem-wal"),
    "%%lance\nSELECT * FROM ": ("arrow", "ds", "frame", "result"),
    "%%lance\nSELECT ds.d": ("dep_delay", "day", "ds"),
    "%%lance\nSELECT * FROM ds@": ("`try/out`",),
    "%%lance\nSELECT * FROM ds@t": ("`try/out`",),
    "%%lance\nSELECT * FROM ds@`try/": ("`try/out`",),
    "%%lance\nSELECT * FROM ds VERSION AS OF '": ("jan",),
    "%%lance\nSELECT * FROM ds FOR VERSION AS OF ": ("2", "1", "'jan'"),
    "%%lance\nSELECT * FROM ds@`try/out` FOR\n version as of 'j": ("jan",),
    "%%lance\nSELECT * FROM ds@`try/out` VERSION AS OF ": ("'jan'",),
    "%%lance\nRESTORE ds TO VERSION AS OF 2": ("2",),
    "%%lance\nSELECT * FROM frame VERSION AS OF '": None,
    "%%lance\nSELECT * FROM nosuch@": None,
    "%%lance\nSELECT * FROM frame WHERE p": ("plain",),
    "%%lance\nSELECT * FROM frame WHERE `x` = 1 AND `p": ("`pl.a n`",),
    "%%lance\nSELECT * FROM result JOIN arrow USING (": (
        "`a``x`",
        "b",
        "id",
        "arrow",
        "ds",
        "frame",
        "result",
    ),
    "%lance SELECT * FROM ds@": ("`try/out`",),
    "%%lance\nSELECT d\n": None,
    'print("': None,
    'ds.insert("': None,
    'ds.nosuch("': None,
    "# ds['": None,
    '"""ds[': None,
    'other.to_table(filter="': None,
    "ds.to_table(": None,
    "ds[": None,
    "": None,
}


FRAMES = {
    "frame": pd.DataFrame({"plain": [1], "pl.a n": [2], 7: [3]}),
    "arrow": pa.table({"a`x": [1], "b": [2]}),
    "result": lk.sql("SELECT 1 AS id"),
    "_3": pd.DataFrame({"hidden": [1]}),
    "words": {"no": "table"},
}


OWN = {"lk": lk, "write_dataset": lk.write_dataset}


@pytest.fixture
def ds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(offers, "_cache", {})
    # However busy the machine is: listings are waited for, and good for as long as a test takes.
    monkeypatch.setattr(offers, "_WAIT_SECONDS", 20)
    monkeypatch.setattr(offers, "_KEEP_SECONDS", 600)
    made = lk.write_dataset(ROWS, tmp_path / "d.lance")
    made.tags.create("jan", 1)
    made.create_branch("try/out")
    made.create_scalar_index("day", "BTREE")
    return made


def test_every_place(ds: Any) -> None:
    unopened = f"{Path(ds.uri).parent}/./d.lance"  # no handle has this path
    for text, names in PLACES.items():
        found = complete(text, {"ds": ds, "other": 1, "path": unopened, **OWN, **FRAMES})
        if text == "%%lance\nSELECT d\n":
            assert found is None or "ds" in found.names
        else:
            assert (found.names if found else None) == names, text


def test_columns_of_a_table_that_is_named_behind_the_cursor(ds: Any) -> None:
    found = complete("%%lance\nSELECT de", {"ds": ds}, " FROM ds; SELECT plain FROM frame")
    assert found is not None
    assert found.names == ("dep_delay",)
    assert complete("%%lance\nSELECT pl", {"ds": ds, **FRAMES}, " FROM ds; FROM frame") is None


def test_what_is_offered_can_be_run(ds: Any) -> None:
    for sql in ("SELECT * FROM ds@", "SELECT * FROM ds VERSION AS OF ", "SELECT sum(`odd "):
        found = complete(f"%%lance\n{sql}", {"ds": ds}, " FROM ds")
        assert found is not None
        for name in found.names:
            text = sql[: len(sql) - len(found.fragment)] + name
            assert len(lk.sql(text if "FROM" in text else text + ") FROM ds", ds=ds)) == 1


def test_references_of_a_dataset_that_is_not_open_yet(tmp_path: Path, ds: Any) -> None:
    text = f'lk.dataset("{tmp_path}/d.lance", branch="'
    for variables in (OWN, {"ds": ds, **OWN}):
        found = complete(text, variables)
        assert found is not None
        assert found.names == ("try/out",)
    stored = lk.write_dataset({"x": [1]}, "memory://completed")
    stored.tags.create("mine")
    text = "lk.dataset('memory://completed', version='"
    found = complete(text, {"stored": stored, **OWN})
    assert found is not None
    assert found.names == ("mine",)
    assert complete(text, OWN) is None  # a store is only read through a handle


def test_columns_of_all_datasets_without_one_in_the_line(ds: Any) -> None:
    other = lk.write_dataset({"day": [1], "height": [2]}, "memory://completed-columns")
    variables = {"ds": ds, "other": other, **OWN}
    for line, names in {
        "lk.col('": ("dep_delay", "day", "odd name", "s", 'ev"il', "s.y", "height"),
        "other.to_table(filter=lk.col('": ("day", "height"),
        "ds.head()\nother.count_rows(lk.col('h": ("height",),
    }.items():
        found = complete(line, variables)
        assert found is not None
        assert found.names == names


def test_keys_without_the_extension(ds: Any) -> None:
    assert ds.indices._ipython_key_completions_() == ["day_idx"]
    assert ds._ipython_key_completions_() == list(ROWS)


def test_ipython_offers_it(ds: Any) -> None:
    with ipython() as shell:
        mine = {"ds": ds, "path": ds.uri, **OWN, **FRAMES}
        shell.user_ns |= mine
        for _ in range(2):
            shell.run_line_magic("load_ext", "lancekit")
        assert len(shell.Completer.custom_matchers) == 1
        for text, names in PLACES.items():
            if names and not text.startswith("%"):
                with provisionalcompleter():
                    found = list(shell.Completer.completions(text, len(text)))
                made = [text[: one.start] + one.text for one in found]
                fragment = complete(text, mine).fragment  # type: ignore[union-attr]
                base = text[: len(text) - len(fragment)]
                assert made == [base + name for name in names], text
        shell.user_ns["ds"] = object()
        with provisionalcompleter():
            list(shell.Completer.completions('ds.to_table(filter="', 20))


#: by argument of `VALUES_OF`: a call that is given each of its texts
CALLS: dict[str, Callable[[Any, str], object]] = {
    "blob_handling": lambda ds, text: ds.scanner(blob_handling=text),
    "blob_mode": lambda ds, text: ds.to_pandas(blob_mode=text),
    "apply.by": lambda ds, text: ds.diff(1).apply(ds, by=text),
    "cherry_pick.by": lambda ds, text: ds.branches.cherry_pick("try/out", 1, by=text),
    "merge.by": lambda ds, text: ds.branches.merge("try/out", by=text),
    "rebase.by": lambda ds, text: ds.branches.rebase("try/out", by=text),
    "revert.by": lambda ds, text: ds.revert(1, by=text),
    "conflicts": lambda ds, text: ds.branches.merge("try/out", conflicts=text),
    "create_index.index_type": lambda ds, text: ds.create_index("v", text),
    "create_scalar_index.index_type": lambda ds, text: ds.create_scalar_index("day", text),
    "data_storage_version": lambda _, text: lk.write_dataset(
        {"x": [1]}, f"memory://v{text}", data_storage_version=text
    ),
    "default": lambda _, text: lk.Sides(default=text),  # type: ignore[arg-type]
    "existing": lambda ds, text: ds.constraints.add("c" + text, "day > 0", existing=text),
    "files": lambda ds, text: ds.branches.merge("try/out", files=text),
    "keep": lambda ds, text: ds.merge_insert("day").dedupe(keep=text),
    "measure": lambda ds, text: ds.plot.columns(1, measure=text),
    "metric": lambda ds, text: ds.create_index("v", "IVF_PQ", metric=text),
    "mode": lambda ds, text: ds.insert({"day": [1]}, mode=text),
    "names": lambda ds, text: ds.diff(1).to_table(names=text),
    "merge_mem_wal.on_error": lambda ds, text: ds.merge_mem_wal(on_error=text),
    "on_fail": lambda ds, text: ds.constraints.add("d" + text, "day > 0", on_fail=text),
    "over": lambda ds, text: ds.plot.history(over=text),
    "primary_key_check": lambda _, text: lk.write_dataset(
        {"x": [1]}, f"memory://k{text}", primary_key_check=text, primary_key="x"
    ),
    "stream_sink.mode": lambda ds, text: lk.stream_sink(ds.uri, "n", mode=text, on="day"),
    "write_mode": lambda ds, text: ds.merge_insert("day").write_mode(text),
}


@pytest.mark.parametrize("argument", VALUES_OF)
def test_values_of_arguments_are_accepted(ds: Any, argument: str) -> None:
    """A call can fail for another reason; an unknown text is an error that names the text."""
    for text in (*VALUES_OF[argument], "nosuch"):
        try:
            CALLS[argument](ds, text)
            refused = False
        except Exception as error:
            refused = f"{text!r}" in str(error)
        assert refused == (text == "nosuch"), text


def test_odd_names_inside_of_structs_are_quoted_alone() -> None:
    ds = lk.write_dataset({"s": [{"y z": 1}]}, "memory://completion-nested")
    found = complete("ds.count_rows('s.", {"ds": ds})
    assert found is not None
    assert found.names == ("s.`y z`",)
    assert ds.count_rows(f"{found.names[0]} = 1") == 1


def test_no_data_and_few_listings(tmp_path: Path, ds: Any) -> None:
    with injected(Faults()) as faults:
        opened = lk.dataset(ds.uri)
        faults.calls.clear()
        for _ in range(3):
            for text in PLACES:
                complete(text, {"ds": opened})
        kinds = {call.kind for call in faults.calls}
        assert kinds <= {"list_names", "list_tree"}
        assert len(faults.calls) <= 6  # tags, branches and versions, once


def test_a_slow_store_is_not_waited_for(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "_WAIT_SECONDS", 0.05)
    answers = threading.Event()

    def slow(call: Call) -> None:
        answers.wait()

    with injected(Faults()) as faults:
        opened = lk.dataset(ds.uri)
        faults.before = slow
        assert complete('ds.tags.delete("', {"ds": opened}) is None
        assert complete('ds.tags.delete("', {"ds": opened}) is None
        answers.set()
        for thread in offers._threads.values():
            thread.join()
        assert complete('ds.tags.delete("', {"ds": opened}).names == ("jan",)  # type: ignore[union-attr]


def test_a_store_that_fails_offers_nothing(ds: Any) -> None:
    with injected(Faults()) as faults:
        opened = lk.dataset(ds.uri)
        faults.fail_at = len(faults.calls) + 1
        assert complete('ds.tags.delete("', {"ds": opened}) is None


def _texts() -> Iterator[str]:
    chance = random.Random(7)
    pieces = [
        *PLACES,
        "(",
        ")",
        "[",
        '"',
        "'",
        '"""',
        "\\",
        "\n",
        ",",
        "=",
        "{",
        "}",
        "#",
        "`",
        "é\u202e",
    ]
    for _ in range(400):
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 6)))
        yield text[: chance.randrange(len(text) + 1)]


def test_no_text_is_an_error(ds: Any) -> None:
    for text in _texts():
        found = complete(text, {"ds": ds})
        assert found is None or text.endswith(found.fragment)
    assert complete("(" * 100_000 + "ds['da", {"ds": ds}) is not None
    assert complete("(" * 100_000, {"ds": ds}) is None
    assert complete("ds.a(1)" + ".b(2)" * 20_000 + "('", {"ds": ds}) is None


def test_an_empty_dataset_is_a_dataset(ds: Any) -> None:
    ds.delete("true")
    found = complete("lk.dataset(path, branch='", {"ds": ds, "path": ds.uri, **OWN})
    assert found is not None
    assert found.names == ("try/out",)
