"""Lance data files: Arrow batches in, one file out, and back with projection and row selection.

Knows nothing of tables, versions or deletions.

`reader` and `writer` are the two doors; `lance_file` opens them to users, by pylance's names, for
files without a dataset; `file_metadata` says what is in a file, and how, in words.  The folders
follow the chapters of the format, from the top: ``columns`` (a field's columns, divided into
pages), ``layouts`` (what a page looks like, and nesting, as levels), ``encodings`` (the values),
``container`` (the frame of the file); below them ``kernels``, which know neither pages nor files
and raise the exceptions of `kernels.faults`, which names the place.

A format of 2.1 and later is the rule; modules of 2.0 are called ``v20_*``.
"""
