"""Lance data files: Arrow batches in, one file out, and back with projection and row selection.

Knows nothing of tables, versions or deletions.

`reader` and `writer` are the two doors; `api` opens them to users, by pylance's names, for files
without a dataset; `metadata` says what is in a file and `describe` puts encodings into words.
`container` is the frame of a file: footer, tables, column metadata, with `checksums`; `shelf`
fetches what is small together.  `fields` reads one field from its columns, which `nodes` finds by
the field's type; `assemble` joins them, with `levels` for lists and nulls.  A page is decoded by
one class for each layout: `miniblock`, `fullzip`, `constant`, `blobpages` (2.1 and later),
`pages20` (2.0); `onechunk` is the short way through small ones, `runs` are pages decoded together,
`parallel` decides what is decoded in threads.  The layouts take their values apart with
`minivalues`, `zipvalues` and `pieces`, over the kernels `bitpacking`, `fsst`, `compression`,
`bits`; decoded values are `raw` until they get their Arrow type.

On the way out `writable` says what a version cannot hold, `leaves` which part of a batch goes to
which column, and `pending` when its rows fill a page.  `encode21` chooses the structure of a page:
`shred` builds its levels, which `levels21` packs, and its values are those of `values21`, cut into
`chunks`, or of `zip21` or `constant21`.  `encode20` writes the pages of 2.0 and `blobs` those of
blobs, all from arrays that `plain` takes apart.

Values of 2.1 and later are encoded by `values21`, with `packing21`, `dictionary21` and `strings21`,
which `fsst_encode` serves.  Nothing below the reader knows a file's name: kernels raise the two
exceptions of `faults`, which names the place.
"""

from lancekit.file.api import LanceFileReader, LanceFileWriter, ReaderResults, stable_version
from lancekit.file.blobpages import as_descriptors
from lancekit.file.columns import FileColumn, file_columns
from lancekit.file.metadata import LanceFileMetadata
from lancekit.file.reader import FileReader
from lancekit.file.selection import Rows
from lancekit.file.writer import FileSummary, FileWriter

__all__ = [
    "FileColumn",
    "FileReader",
    "FileSummary",
    "FileWriter",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileWriter",
    "ReaderResults",
    "Rows",
    "as_descriptors",
    "file_columns",
    "stable_version",
]
