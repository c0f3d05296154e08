"""Commits: from an operation to a new version.

``rules`` decide which operations conflict.  `rebase` adapts an operation to versions that landed
meanwhile.  ``manifest`` builds the next manifest, and `protocol` commits it (with `put_version`).
`refs` makes tags, branches and clones.  ``lancekit._versions`` finds and reads versions.
"""
