"""`LanceDataset.explore`: versions, branches and tags to step and slide through.

`state` is where an explorer stands, a pure function of what a person did; `pages` reads what a
state wants; `views` makes cards of that; `changes` plans what can be changed;
`visit` puts these together; `shell` has the widgets.
"""

from lancekit._notebook.explorer.explorer import Explorer

__all__ = ["Explorer"]
