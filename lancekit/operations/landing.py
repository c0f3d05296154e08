"""What becomes of new files when their commit does not land."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lancekit.errors import CommitUnknownError, LancekitError
from lancekit.format.fragment import Fragment
from lancekit.pipeline.write import delete_fragments
from lancekit.storage import Store

__all__ = ["removed_unless_landed"]


@contextmanager
def removed_unless_landed(store: Store, fragments: Iterable[Fragment]) -> Iterator[None]:
    """Remove the files of new fragments if the commit in the block is known not to have landed.

    Only an error of lancekit says so.  After an interrupt, as after a `CommitUnknownError`, the
    version may be there: its files stay, and cleanup removes them if nothing refers to them.
    """
    try:
        yield
    except CommitUnknownError:
        raise
    except LancekitError:
        delete_fragments(store, fragments)
        raise
