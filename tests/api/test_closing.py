"""A `with` closes, and the first error is the one that leaves."""

import pytest

from lancekit._api.sinks import Closing
from lancekit.errors import ShardError


class Stuck(Closing):
    closed = 0

    def close(self) -> None:
        self.closed += 1
        raise ShardError("It cannot be closed.")


def test_the_first_error_leaves() -> None:
    door = Stuck()
    with pytest.raises(KeyError), door:
        raise KeyError
    with pytest.raises(ShardError, match="cannot be closed"), door:
        pass
    assert door.closed == 2
