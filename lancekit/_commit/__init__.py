"""From an operation to a committed version.

``rules`` say how operations meet, `rebase` adapts one to what landed since, ``manifest`` makes the
next manifest, `protocol` puts it in place (`put_version`); `refs` makes tags, branches and clones.
Versions are found and read in ``lancekit._versions``.
"""
