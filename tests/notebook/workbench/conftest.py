"""Tables to be merged into."""

import pytest

import lancekit as lk


@pytest.fixture
def ds(tmp_path):
    """Rows 1 to 8."""
    ids = list(range(1, 9))
    rows = {"id": ids, "price": [float(i) for i in ids], "name": [f"item {i}" for i in ids]}
    return lk.write_dataset(rows, tmp_path / "t", primary_key="id")


def widgets(root):
    """Return the widgets below one by what they are called."""
    found = {}
    for child in getattr(root, "children", ()):
        found |= widgets(child)
        if getattr(child, "description", ""):
            found[child.description] = child
    return found
