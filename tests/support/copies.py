"""What becomes of anything public that is pickled or copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lancekit.errors import LancekitError

__all__ = ["REFUSED", "check_copies"]

#: classes whose objects there is one of: files that are written, and widgets
REFUSED = {"BranchBench", "Explorer", "LanceFileWriter", "MergeBench", "ShardWriter"}

_WAYS: Mapping[str, Callable[[Any], Any]] = {
    "sent": lambda value: pickle.loads(pickle.dumps(value)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


def check_copies(value: Any) -> None:
    """Check that copies are of the same class and can be shown, or that it is said why not."""
    for way, made in _WAYS.items():
        if type(value).__name__ in REFUSED:
            with pytest.raises(LancekitError) as caught:
                made(value)
            assert isinstance(caught.value, TypeError), way
            assert caught.value.hint
        else:
            other = made(value)
            assert type(other) is type(value), way
            assert "could not be drawn" not in repr(other), (type(value), way)
