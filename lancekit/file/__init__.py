"""Lance data files: Arrow batches in, one file out, and back with projection and row selection.

Knows nothing of tables, versions or deletions.
"""
