"""What a write is asked for, whichever function hears it."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature

import pytest

import lancekit as lk
from lancekit._api.write_options import WriteOptions


def test_options_are_the_arguments_of_a_write() -> None:
    asked = list(signature(lk.write_dataset).parameters.values())[2:]
    assert {a.name: a.default for a in asked} == {o.name: o.default for o in fields(WriteOptions)}


def test_insert_takes_what_a_write_takes_and_nothing_else() -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://write-options-example")
    ds.insert({"x": [2, 3]}, max_rows_per_file=1, commit_message="two files")
    assert len(ds.get_fragments()) == 3
    assert ds.read_transaction(ds.version).transaction_properties == {
        "__lance_commit_message": "two files"
    }
    with pytest.raises(lk.errors.InvalidTypeError, match=r"no argument 'nonsense'.*write_dataset"):
        ds.insert({"x": [4]}, nonsense=1)
    with pytest.raises(lk.errors.InvalidTypeError, match="max_rows_per_file is '1'"):
        ds.insert({"x": [4]}, max_rows_per_file="1")
    assert ds.count_rows() == 3
