"""What lies in a folder, to be compared before and after."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["tree_hash"]


def tree_hash(root: Path | str) -> dict[str, str]:
    """Return a hash of each file in a folder, and of those below it, by its path."""
    top = Path(root)
    return {
        str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }
