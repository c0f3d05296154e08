"""What manifests hold, as text of the reference's shape."""

from __future__ import annotations

import re

import lance.debug
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import debug
from lancekit.errors import InvalidTypeError
from lancekit.lance import manifest_needs_migration

ROWS = pa.table({"x": [1, 2, 3], "s": [{"a": 1, "b": "u"}] * 3, "l": [[1.5]] * 3})


def _told(text: str) -> set[str]:
    """Return the members of a text, with the level at which they stand, and short values."""
    return set(re.findall(r"(?m)^ *(?:name|id|parent_id|path|nullable|uuid): .*,$", text))


@pytest.fixture
def both(tmp_path):
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.add_columns({"y": "x + 1"})
    ds.delete("x = 1")
    return ds, lance.dataset(tmp_path / "d")


def test_schemas_and_fragments_tell_what_the_references_do(both) -> None:
    ours, theirs = both
    pairs = [
        (debug.format_schema(ours), lance.debug.format_schema(theirs)),
        (debug.format_manifest(ours), lance.debug.format_manifest(theirs)),
        (
            debug.format_fragment(ours.get_fragments()[0].metadata, ours),
            lance.debug.format_fragment(theirs.get_fragments()[0].metadata, theirs),
        ),
    ]
    for mine, other in pairs:
        assert _told(mine) == _told(other) != set()
        assert mine.splitlines()[0] == other.splitlines()[0]
        assert mine.splitlines()[-1] == "}"


def test_a_fragment_is_given_by_its_metadata(both) -> None:
    ours, _ = both
    with pytest.raises(InvalidTypeError, match=r"got LanceFragment.*Pass the metadata"):
        debug.format_fragment(ours.get_fragments()[0], ours)


def test_transactions_come_newest_first(both) -> None:
    ours, theirs = both
    mine, others = debug.list_transactions(ours), lance.debug.list_transactions(theirs)
    assert [_told(text) for text in mine] == [_told(text) for text in others]
    operations = [re.findall(r"operation: (\w+) {", text) for text in mine]
    assert operations == [["Delete"], ["Merge"], ["Overwrite"]]
    assert debug.list_transactions(ours, max_transactions=1) == mine[:1]


def test_what_cannot_be_seen_is_spelled_out() -> None:
    ds = lk.write_dataset({"a\u202eb": [b"x"]}, "memory://debug-names", commit_message="m")
    text = debug.format_schema(ds)
    assert 'name: "a\\u202eb"' in text
    assert 'LogicalType(\n                "binary",\n            )' in text
    (change,) = debug.list_transactions(ds)
    assert '"__lance_commit_message": "m"' in change


def test_a_manifest_of_today_needs_no_migration(both) -> None:
    assert not manifest_needs_migration(both[0])
