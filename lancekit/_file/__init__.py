"""Lance data files: writer of Arrow batches, and reader with projection and row selection.

Independent of tables, versions and deletions.

Other rooms use `reader` and `writer`.  `lance_file` has pylance's classes for files without a
dataset, and `file_metadata` describes a file's contents and encodings in words.  The folders follow
the chapters of the format, from the top: ``columns`` (a field's columns and their pages),
``layouts`` (pages, and nesting as levels), ``encodings`` (values), ``container`` (footer and
tables).  ``kernels`` are independent of pages and files.  They raise the exceptions of
`kernels.faults`, whose `located` adds file, column and page.

Modules are for versions from 2.1 on; modules for 2.0 only are named ``v20_*``.
"""
