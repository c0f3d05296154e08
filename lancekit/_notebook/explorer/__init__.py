"""The explorer of `LanceDataset.explore`: browse versions, branches and tags of a dataset.

`state` has the selection as immutable state, changed by the user's events.  `pages` reads versions
and rows, `views` builds their cards, and `changes` plans restores, tags, branches and promotions.
`visit` combines these, and `shell` has the widgets.
"""

from lancekit._notebook.explorer.explorer import Explorer

__all__ = ["Explorer"]
