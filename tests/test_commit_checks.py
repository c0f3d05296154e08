"""Operations made by hand that would damage a table: refused, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.commit.pending import Pending
from lancekit.commit.protocol import commit
from lancekit.errors import CorruptFileError
from lancekit.format.schema import LanceSchema

ROWS = pa.table({"a": [1, 2], "b": [10, 20]})
OURS: Any = lk.LanceOperation

Make = Callable[[Any, str], Any]


def files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file())


def schema_of(ds: Any) -> LanceSchema:
    found: LanceSchema = ds._snapshot.manifest.schema
    return found


def repeated(schema: LanceSchema) -> LanceSchema:
    """Return a schema in which two fields have one id."""
    return replace(schema, fields=(*schema.fields, replace(schema.fields[0], name="again")))


def test_what_could_not_be_opened_is_not_put(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    before = files(tmp_path)
    project = OURS.Project(repeated(schema_of(ds)))
    with pytest.raises(CorruptFileError, match="has id 0, and so has another"):
        commit(ds._snapshot, Pending(project))  # without the checks of what is made by hand
    assert files(tmp_path) == before
    assert lance.dataset(tmp_path).to_table() == ROWS
