"""A line of versions: the main one of a dataset, or one of its branches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lancekit.format.names import branch_folder
from lancekit.format.refs import MAIN
from lancekit.storage import Store, open_base, open_store

__all__ = ["Line", "open_line"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where versions live: `root` is the dataset's main folder, `store` that of the branch.

    Tags and branches are listed below `root`, whatever the branch.
    """

    root: Store
    branch: str | None = None
    storage_options: Mapping[str, str] | None = None

    @property
    def store(self) -> Store:
        """The folder that holds this line's versions and new files."""
        return self.root.child(branch_folder(self.branch)) if self.branch else self.root

    @property
    def uri(self) -> str:
        """The folder as a path or URI."""
        return self.store.uri

    @property
    def name(self) -> str:
        """The branch's name, ``main`` for the main line."""
        return self.branch or MAIN

    def on(self, branch: str | None) -> Line:
        """Return another line of the same dataset."""
        return replace(self, branch=None if branch == MAIN else branch)

    def base(self, path: str) -> Store:
        """Open a base path; ``UntrustedBaseError`` if it is in a store that is not trusted."""
        return open_base(path, self.root, self.storage_options)

    def anchored(self, branch: str | None) -> Line:
        """Return the line with its true root, once the manifest has told the branch.

        A branch's folder is a dataset of its own and can be opened by its path.
        """
        suffix = f"/{branch_folder(branch)}"
        if branch is None or self.branch is not None or not self.root.uri.endswith(suffix):
            return self
        root = open_store(self.root.uri.removesuffix(suffix), self.storage_options)
        return Line(root=root, branch=branch, storage_options=self.storage_options)


def open_line(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Line:
    """Return the line at a path or URI; nothing is read yet."""
    root = open_store(uri, storage_options)
    return Line(root=root, storage_options=dict(storage_options) if storage_options else None)
