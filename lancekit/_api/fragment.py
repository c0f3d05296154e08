"""Fragments: existing ones of a version, and new ones for a later commit.

Names follow ``lance.fragment``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
from pyroaring import BitMap

from lancekit._api._fragment_reading import ChangingFragment, ReadingFragment
from lancekit._api._handle import Handle
from lancekit._api.scanner import shown_schema
from lancekit._api.write_settings import check_progress, file_settings
from lancekit._arguments.checks import check_count, check_flag, check_list, check_place
from lancekit._arguments.record import takes
from lancekit._arguments.write import FragmentsArguments
from lancekit._checked import checked, checked_methods
from lancekit._commit.rules.verdict import listed
from lancekit._display import Displayed
from lancekit._format.data_file import DataFile
from lancekit._format.extensions import resolved_schema
from lancekit._format.fragment import Fragment
from lancekit._format.transaction import Transaction
from lancekit._legible import shown
from lancekit._operations.checks.operation import described_file
from lancekit._operations.delete import delete_in_fragment
from lancekit._operations.maintenance.validate import validate_fragment
from lancekit._operations.write import open_rows, plan_write
from lancekit._pipeline.delete_rows import find_rows_by_index
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.branch_location import BranchLocation, check_same_place, open_location
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, RowOutOfRangeError
from lancekit.progress import FragmentWriteProgress

#: a fragment's entry in a manifest
FragmentMetadata = Fragment

_MAX = 2**63 - 1


@checked_methods
class LanceFragment(ReadingFragment, ChangingFragment, Displayed):
    """A fragment of a dataset's version, as returned by `LanceDataset.get_fragments`.

    Parameters
    ----------
    dataset
        A handle at the version.
    fragment_id
        The id of the fragment.
    fragment
        A fragment of the same version, to skip the lookup.

    Raises
    ------
    InvalidArgumentError
        The version has no such fragment.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://fragment-example")
    >>> lk.LanceFragment(ds, 0).count_rows()
    2
    """

    def __init__(
        self, dataset: Handle, fragment_id: int | None, *, fragment: LanceFragment | None = None
    ) -> None:
        if fragment is None:
            number = check_count("fragment_id", fragment_id)
            sources = fragment_sources(dataset._snapshot)
            found = [source for source in sources if source.fragment.id == number]
            fragment = LanceFragment._of(dataset, found[0]) if found else None
        if fragment is None:
            known = [source.fragment.id for source in sources]
            raise InvalidArgumentError(
                f"The version has no fragment {fragment_id}.",
                hint=f"Its fragments are {listed(known) or 'none'}.",
                fragment_id=fragment_id,
            )
        if not isinstance(fragment, LanceFragment):
            raise InvalidTypeError(
                f"fragment must be a fragment of a dataset, got {shown(fragment)}.",
                hint="Pass a fragment from get_fragments(), or leave it out.",
            )
        if fragment_id not in (None, fragment.fragment_id):
            raise InvalidArgumentError(
                f"fragment_id is {shown(fragment_id)}, but fragment has id {fragment.fragment_id}.",
                hint="Pass one of the two.",
                fragment_id=fragment_id,
            )
        self._dataset = dataset
        self.source: FragmentSource = fragment.source

    @classmethod
    def _of(cls, dataset: Handle, source: FragmentSource) -> LanceFragment:
        fragment = cls.__new__(cls)
        fragment._dataset, fragment.source = dataset, source
        return fragment

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, rows={self.metadata.num_rows})"

    @staticmethod
    def create(
        dataset_uri: str | os.PathLike[str],
        data: object,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: FragmentWriteProgress | None = None,
        mode: Literal["create", "append", "overwrite"] = "append",
        *,
        data_storage_version: str | None = None,
        use_legacy_format: bool | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        session: object = None,
    ) -> Fragment:
        """Write rows to one new fragment, for a later commit.

        Parameters
        ----------
        dataset_uri
            The path or URI of the existing or future dataset.
        data, schema
            Rows as in `lancekit.write_dataset`.
        fragment_id
            The id in the result; a commit replaces id 0 by a new one.
        progress
            As in `lancekit.write_dataset`; its fragments have this id.
        mode
            ``"append"`` for rows that fit the dataset; ``"create"`` or ``"overwrite"`` for a new
            schema.

        Returns
        -------
        FragmentMetadata
            The new fragment, for `LanceOperation.Append` or `LanceOperation.Overwrite`.

        Raises
        ------
        InvalidArgumentError
            There are no rows, or they were written to several files.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = pa.table({"x": [1, 2]})
        >>> fragment = lk.LanceFragment.create("memory://create-example", rows)
        >>> operation = lk.LanceOperation.Overwrite(rows.schema, [fragment])
        >>> lk.LanceDataset.commit("memory://create-example", operation).count_rows()
        2
        """
        written = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=_MAX,
            max_rows_per_group=max_rows_per_group,
            max_bytes_per_file=_MAX,
            progress=_with_fragment_id(progress, fragment_id),
            data_storage_version=data_storage_version,
            use_legacy_format=use_legacy_format,
            storage_options=storage_options,
            namespace_client=namespace_client,
            table_id=table_id,
            session=session,
        )
        if not isinstance(written, list) or len(written) != 1:
            raise InvalidArgumentError(
                "The rows must make one fragment, but there are no rows, or Spark wrote several.",
                hint="Use lancekit.fragment.write_fragments(), which returns a list.",
            )
        return written[0] if fragment_id is None else replace(written[0], id=fragment_id)

    @staticmethod
    def create_from_file(filename: str, dataset: Handle, fragment_id: int) -> Fragment:
        """Return a fragment with an existing data file of the dataset's folder ``data``.

        Parameters
        ----------
        filename
            The name of the file in the folder.
        dataset
            The dataset, whose schema has the file's columns.
        fragment_id
            The id in the result; a commit replaces id 0 by a new one.

        Returns
        -------
        FragmentMetadata
            The new fragment, for a later commit.

        Raises
        ------
        InvalidArgumentError
            The file does not exist, or has a column that the dataset does not have.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://from-file-example")
        >>> name = ds.get_fragments()[0].data_files()[0].path
        >>> lk.LanceFragment.create_from_file(name, ds, 0).physical_rows
        2
        """
        if not isinstance(dataset, Handle):
            raise InvalidTypeError(
                f"dataset must be a LanceDataset, got {shown(dataset)}.", argument="dataset"
            )
        file, rows = described_file(dataset._snapshot, filename)
        return Fragment(check_count("fragment_id", fragment_id), (file,), rows)

    def validate(self, *, deep: bool = False) -> None:
        """Check the fragment's files, and raise an error for damage.

        Parameters
        ----------
        deep
            As in `LanceDataset.validate`.

        Raises
        ------
        CorruptFileError
            A file is damaged; the error names it.
        """
        validate_fragment(self.source, deep=check_flag("deep", deep))

    @property
    def fragment_id(self) -> int:
        """The fragment's id."""
        return self.metadata.id

    @property
    def schema(self) -> pa.Schema:
        """The dataset's schema."""
        return shown_schema(self._dataset)

    @property
    def physical_rows(self) -> int:
        """The number of rows in the files, including deleted rows."""
        return self.metadata.physical_rows

    @property
    def num_deletions(self) -> int:
        """The number of deleted rows."""
        return self.metadata.num_deletions

    def data_files(self) -> list[DataFile]:
        """Return the fragment's data files."""
        return list(self.metadata.files)

    def deletion_file(self) -> str | None:
        """Return the deletion file's path in its dataset or base path, or ``None`` without one."""
        return self.source.deletion.name if self.source.deletion else None

    @property
    def physical_schema(self) -> pa.Schema:
        """The dataset's fields that are stored in the fragment's files."""
        stored = {id_ for file in self.metadata.files for id_ in file.fields}
        top = self._dataset._snapshot.manifest.schema.fields
        present = [f.to_arrow() for f in top if stored & {g.id for g in f.walk()}]
        return resolved_schema(pa.schema(present))

    def delete(self, predicate: Any) -> Fragment | None:
        """Mark the rows that match a predicate as deleted, for a later commit.

        The new deletion file is written, but no version uses it yet.  See `LanceOperation.Delete`.

        Returns
        -------
        FragmentMetadata or None
            The new state of the fragment, or ``None`` if no row is left.

        Raises
        ------
        PredicateError
            The predicate does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://delete-in-fragment-example")
        >>> fragment = ds.get_fragments()[0].delete("x = 2")
        >>> change = lk.LanceOperation.Delete([fragment], [], "x = 2")
        >>> lk.LanceDataset.commit(ds, change, read_version=1).count_rows()
        2
        """
        snapshot = self._dataset._snapshot
        schema = blob_view(snapshot.manifest.schema)
        parsed = Predicate.parse(predicate, schema.to_arrow())
        found = find_rows_by_index(snapshot, replace(self.source, schema=schema), parsed)
        return self._deleted(found.rows, found.deleted_before)

    def delete_rows(self, offsets: Iterable[int]) -> Fragment | None:
        """Mark rows as deleted by their offsets in the fragment's files, for a later commit.

        Returns
        -------
        FragmentMetadata or None
            The new state of the fragment, or ``None`` if no row is left.

        Raises
        ------
        RowOutOfRangeError
            The fragment has no row at an offset.
        """
        listed = check_list("offsets", offsets, "whole numbers")
        rows = BitMap(check_count("offset", offset) for offset in listed)
        if rows and rows.max() >= self.physical_rows:
            raise RowOutOfRangeError(
                f"Row offset {rows.max()} is out of range: fragment {self.fragment_id} has "
                f"{self.physical_rows} rows.",
                offset=rows.max(),
            )
        return self._deleted(rows, FragmentReader(self.source).deleted)

    def _deleted(self, rows: BitMap, before: BitMap) -> Fragment | None:
        return delete_in_fragment(self._dataset._snapshot.store, self.source, rows, before)


@checked
@takes(FragmentsArguments)
def write_fragments(arguments: FragmentsArguments) -> list[Fragment] | Transaction:
    """Write rows to new fragments, for a later commit.

    Returns
    -------
    list of FragmentMetadata, or Transaction
        The new fragments; with ``return_transaction=True`` the transaction to commit.

    Raises
    ------
    SchemaMismatchError
        The rows do not fit the dataset that they are to be appended to.

    Examples
    --------
    >>> import lancekit as lk
    >>> from lancekit.fragment import write_fragments
    >>> ds = lk.write_dataset({"x": [1]}, "memory://fragments-example")
    >>> change = write_fragments({"x": [2, 3]}, ds, return_transaction=True)
    >>> lk.LanceDataset.commit(ds, change).count_rows()
    3
    """
    # "create" also allows an existing dataset: it only means a new schema, which the commit stores
    mode = "overwrite" if arguments.mode == "create" else arguments.mode
    settings = file_settings(arguments, mode, primary_key=())
    place, options = arguments.dataset_uri, arguments.storage_options
    if isinstance(place, Handle):
        check_same_place(place._location, options)
        target: Snapshot | BranchLocation = place._snapshot
    else:
        target = open_location(check_place(place), options)
    source, target = open_rows(arguments.data, arguments.schema, target, settings.mode)
    plan = plan_write(source.schema, target, settings)
    fragments = source.write(plan.casts, plan.task, settings.progress)
    return plan.transaction(fragments) if arguments.return_transaction else list(fragments)


def _with_fragment_id(progress: object, fragment_id: int | None) -> FragmentWriteProgress | None:
    """Return a progress object that sets the id of the fragments it reports."""
    checked = check_progress(progress)
    return checked if checked is None or fragment_id is None else _Numbered(checked, fragment_id)


@dataclass(frozen=True, slots=True)
class _Numbered(FragmentWriteProgress):
    progress: FragmentWriteProgress
    fragment_id: int

    def begin(self, fragment: Fragment, **kwargs: object) -> None:
        self.progress.begin(replace(fragment, id=self.fragment_id), **kwargs)

    def complete(self, fragment: Fragment, **kwargs: object) -> None:
        self.progress.complete(replace(fragment, id=self.fragment_id), **kwargs)
