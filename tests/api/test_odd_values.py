"""Everything public, called with values that fit nowhere: what leaves is lancekit's own error."""

from __future__ import annotations

import inspect
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._api.sql import SqlQueryBuilder
from lancekit._format.manifest import encode_manifest_file
from lancekit.file import LanceFileWriter
from tests.support.odd_values import NEEDED, ODD, OwnError, Place, parameters, public_names

NAMES = dict(public_names())
#: of so many calls one is made, but for `--whole`
SAMPLE = 100


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch, lk.options(fsync=False):
        # deep enough for a call that takes "../.." for a place
        (here := tmp_path_factory.mktemp("here") / "of" / "calls").mkdir(parents=True)
        patch.chdir(here)
        yield Place(folder)


def _used(result: Any, place: Place) -> None:
    """Use what a call returned, which may have put its work off."""
    if isinstance(result, lk.ScannerBuilder):
        result = result.to_scanner()
    if isinstance(result, lk.MergeInsertBuilder):
        result.preview(place.rows)
    elif isinstance(result, SqlQueryBuilder):
        result.build().to_batch_records()
    elif isinstance(result, lk.LanceScanner):
        result.to_table()
    elif isinstance(result, pa.RecordBatchReader):
        result.read_all()
    elif inspect.isgenerator(result):
        list(result)
    elif isinstance(result, LanceFileWriter):
        result.close()


def _call(place: Place, name: str, parameter: inspect.Parameter, odd: str) -> None:
    given = dict(NEEDED.get(name, lambda _: {})(place))
    call, value = NAMES[name](place), ODD[odd]()
    with _closed(getattr(call, "__self__", None)):
        _give(place, call, given, parameter, value)


@contextmanager
def _closed(owner: Any) -> Iterator[None]:
    try:
        yield
    finally:
        if isinstance(owner, LanceFileWriter):
            with suppress(errors.LancekitError):
                owner.close()


def _give(
    place: Place,
    call: Callable[..., Any],
    given: dict[str, Any],
    parameter: inspect.Parameter,
    value: Any,
) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
        given.pop(parameter.name, None)
        _used(call(value, **given), place)
    else:
        _used(call(**{**given, parameter.name: value}), place)


def _state(place: Place) -> tuple[int, pa.Table]:
    ds = lk.dataset(place.uri)
    return ds.version, ds.to_table()


def _try(place: Place, name: str, parameter: inspect.Parameter, odd: str) -> str:
    """Return what is wrong with a call, if anything is."""
    before, told = _state(place), ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _call(place, name, parameter, odd)
    except OwnError:
        place.open()
    except errors.LancekitError as error:
        str(error).encode()
        if _state(place) != before:
            told = f"changed the dataset, and said {error}"
    except Exception as error:
        told = f"{type(error).__name__}: {error!s:.200}"
    if lk.dataset(place.uri).version != before[0]:
        _state(place)  # it can still be read
        place.reset()
    return f"{name}({parameter.name}={odd}): {told}" if told else ""


@pytest.mark.torture
@pytest.mark.parametrize("name", NAMES)
def test_what_leaves_is_lancekits_own(place: Place, name: str, whole: bool) -> None:
    with _closed(getattr(call := NAMES[name](place), "__self__", None)):
        calls = [(p, odd) for p in parameters(call) for odd in ODD]
    if not whole and calls:
        chosen = random.Random(name)
        calls = chosen.sample(calls, -(-len(calls) // SAMPLE))
    wrong = [told for p, odd in calls if (told := _try(place, name, p, odd))]
    assert not wrong, "\n".join(wrong)


def test_what_a_view_of_spark_is_asked_for_is_checked_before_java_starts() -> None:
    """No executor reads a dataset in memory, so that the session is never reached."""
    view = lk.write_dataset({"id": [1]}, "memory://odd-view").create_temp_view
    before = lk.session_info().state
    for parameter in parameters(view):
        for make in ODD.values():
            with pytest.raises((errors.LancekitError, OwnError)):
                view(**{"name": "view", parameter.name: make()})
    assert lk.session_info().state == before


def _with(path: Path, change: Callable[[Any], Any]) -> lk.LanceDataset:
    """Write a dataset, change its manifest, and open it."""
    ds = lk.write_dataset({"x": [1, 2], "s": ["a", "b"]}, path)
    snapshot = ds._snapshot
    manifest = change(snapshot.manifest)
    (path / "_versions" / snapshot.manifest_name).write_bytes(encode_manifest_file(manifest))
    return lk.dataset(path)


def _first_field(**parts: Any) -> Callable[[Any], Any]:
    def change(manifest: Any) -> Any:
        first, *others = manifest.schema.fields
        schema = replace(manifest.schema, fields=(replace(first, **parts), *others))
        return replace(manifest, schema=schema)

    return change


@pytest.mark.parametrize(
    "name",
    [
        "fixed_size_list:" * 50_000 + "float:2",
        "dict:" * 60_000 + "string",
        "decimal:128:99:2",
        "fixed_size_list:float:99999999999999",
        "timestamp:us:" * 20_000,
        "timestamp:parsec:-",
    ],
)
def test_types_that_nobody_can_have(tmp_path: Path, name: str) -> None:
    ds = _with(tmp_path / "d", _first_field(logical_type=name))
    uses: list[Callable[[], object]] = [
        lambda: ds.schema,
        ds.to_table,
        ds.to_pandas,
        lambda: ds.take([0]),
        lambda: ds.to_table(filter="x > 1"),
        lambda: ds.insert({"x": [1], "s": ["a"]}),
        lambda: ds.validate(deep=True),
    ]
    for use in uses:
        with pytest.raises(errors.LancekitError) as caught:
            use()
        assert len(str(caught.value)) < 5000
    assert "could not be drawn" not in repr(ds)


@pytest.mark.parametrize("zone", ["No/Where", "us:us:" * 20])
def test_a_time_zone_that_is_none(tmp_path: Path, zone: str) -> None:
    ds = _with(tmp_path / "d", _first_field(logical_type=f"timestamp:us:{zone}"))
    assert ds.count_rows() == 2
    with pytest.raises(errors.LancekitError):
        ds.to_pandas()


def test_a_column_that_is_called_like_a_path_into_another(tmp_path: Path) -> None:
    ds = _with(tmp_path / "d", _first_field(name="s.x"))
    assert ds.to_table().to_pydict() == {"s.x": [1, 2], "s": ["a", "b"]}
    assert ds.take([1]).to_pydict() == {"s.x": [2], "s": ["b"]}
    assert ds.to_table(columns=["s"]).to_pydict() == {"s": ["a", "b"]}
    assert list(ds.to_pandas().columns) == ["s.x", "s"]
    ds.validate(deep=True)


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        "5",
        "[" * 100_000,
        '{"index_columns": 5}',
        '{"index_columns": ["no"], "columns": [{}]}',
        '{"columns": [{"name": "x", "pandas_type": "object", "numpy_type": "nosuch", '
        '"metadata": null}], "index_columns": [], "column_indexes": []}',
    ],
)
def test_what_a_schema_says_of_pandas_is_left_out_if_it_is_no_good(
    tmp_path: Path, said: str
) -> None:
    def change(manifest: Any) -> Any:
        return replace(manifest, schema=replace(manifest.schema, metadata={"pandas": said}))

    ds = _with(tmp_path / "d", change)
    with pytest.warns(UserWarning, match="The pandas metadata of the schema"):
        assert ds.to_pandas()["x"].tolist() == [1, 2]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"branch": null, "version": ' + "[" * 100_000])
def test_tag_files_that_are_too_deep(tmp_path: Path, text: str) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    ds.tags.create("t", 1)
    (tmp_path / "d/_refs/tags/t.json").write_text(text)
    with pytest.warns(UserWarning, match="'t' is skipped"):
        assert ds.tags.list() == {}
    for use in (lambda: ds.checkout_version("t"), lambda: ds.tags.delete("t")):
        try:
            use()
        except errors.LancekitError as error:
            assert len(str(error)) < 1000  # noqa: PT017  # deleting it is fine too


def test_arguments_by_a_name_that_is_not_known(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    calls: list[Callable[[], object]] = [
        lambda: ds.head(1, nonsense=1),
        lambda: ds.count_rows(nonsense=1),
        lambda: ds.to_table(nonsense=1),  # type: ignore[call-arg]
        lambda: ds.to_pandas(nonsense=1),
        lambda: ds.insert({"x": [1]}, nonsense=1),
        lambda: ds.explain.update({"x": "1"}, nonsense=1),
        lambda: ds.take(columns=["x"]),  # type: ignore[call-arg]
        lambda: lk.dataset(str(tmp_path / "d"), nonsense=1),  # type: ignore[call-arg]
    ]
    for call in calls:
        with pytest.raises(errors.InvalidTypeError, match=r"nonsense|indices"):
            call()
    assert ds.explain.to_pandas(split_blocks=True).reads is not None
    assert ds.to_pandas(split_blocks=True)["x"].tolist() == [1]


@pytest.mark.parametrize("version", [["2.1"], 2.1, {"2.1"}, "3.7", ""])
def test_versions_of_files_that_are_none(tmp_path: Path, version: Any) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    calls = [
        lambda: ds.update({"x": "1"}, data_storage_version=version),
        lambda: ds.optimize.compact_files(data_storage_version=version),
        lambda: ds.merge_insert("x").data_storage_version(version),
        lambda: lk.write_dataset({"x": [1]}, tmp_path / "e", data_storage_version=version),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidArgumentError, match="version"):
            call()
    assert ds.version == 1


def test_a_warning_is_of_the_line_that_led_to_it(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d")
    with pytest.warns(DeprecationWarning, match="update_schema_metadata") as told:
        ds.replace_schema_metadata({"a": "b"})
    assert [Path(one.filename) for one in told] == [Path(__file__)]


def test_arguments_are_taken_in_every_form_they_have(tmp_path: Path) -> None:
    """NumPy's numbers and flags are numbers and flags."""
    ds = lk.write_dataset({"x": [1, 2, 3]}, tmp_path / "d")
    found = ds.to_table(limit=np.int64(2), with_row_id=np.bool_(True), columns=np.array(["x"]))
    assert found.to_pydict() == {"x": [1, 2], "_rowid": [0, 1]}
    assert ds.take(np.array([2], np.uint8))["x"].to_pylist() == [3]
    assert lance.dataset(ds.uri).count_rows() == 3


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    """Disks hold names of other encodings."""
    place = tmp_path / os.fsdecode(b"caf\xe9")
    lk.write_dataset({"x": [1]}, place).insert({"x": [2]})
    assert lk.dataset(str(place)).count_rows() == 2
    assert "caf\\udce9" in repr(lk.dataset(place))
    with pytest.raises(errors.InvalidArgumentError):
        lk.dataset("memory://caf\udce9")
