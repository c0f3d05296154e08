"""The part of a dataset handle that commits hand-made operations and changes settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count, check_list, check_mapping, refuse
from lancekit._checked import checked_methods
from lancekit._defaults import COMMIT_TIMEOUT, MAX_RETRIES
from lancekit._format.data_file import DataFile
from lancekit._format.manifest import BasePath
from lancekit._legible import warn
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.constraints import Constraints
    from lancekit._api.pylance_session import Session
    from lancekit._file.file_session import LanceFileSession
    from lancekit._format.operations import Operation, UpdateConfig
    from lancekit._format.transaction import Transaction
    from lancekit._operations.settings import Changes

DatasetRef = str | os.PathLike[str] | Handle


@checked_methods
class Commits(Handle):
    """Commits of hand-made operations."""

    def _described_file(self, path: str, base_id: int | None) -> DataFile:
        """Implement `DataFile.create`."""
        from lancekit._operations.checks.operation import described_file

        return described_file(self._snapshot, path, base_id)[0]

    @classmethod
    def commit(
        cls,
        base_uri: DatasetRef,
        operation: Operation | Transaction,
        read_version: int | None = None,
        commit_lock: object = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = MAX_RETRIES,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        namespace_client: object = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = COMMIT_TIMEOUT,
        properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Commit an operation, and return a handle at the new version.

        The operation is checked before anything is written.  The schema must describe readable
        rows.  Added files must exist, with the rows, columns and types that the operation states.
        Changed fragments must exist, be named once, and keep their rows and row ids.  No row can be
        added twice, and a new index must have files.  Values are not read: a null in a column that
        is not nullable causes an error only when it is read.

        Parameters
        ----------
        base_uri
            The path or URI of the existing or future dataset; or a handle, which does not move and
            must not be pinned to a version.
        operation
            A `LanceOperation`.  Or a transaction, which has its own read version and properties.
        read_version
            The version that the operation is based on.  An overwrite and a restore do not need it:
            they use the newest version, or the handle's.
        detached
            Commit outside of the history: the version has a random number and is never the newest.
        max_retries
            How often the commit can lose the race for a version number.  An overwrite with 0 is
            strict: it becomes the very next version or fails.
        commit_message, properties
            Stored in the transaction; the history shows the message.
        enable_stable_row_ids, enable_v2_manifest_paths
            Settings of a dataset that an overwrite creates.
        commit_timeout
            The time after which no further attempt begins; ``None`` for no limit.
        commit_lock, storage_options
            As in `lancekit.dataset`, but a handle has its own.
        namespace_client, table_id, namespace_client_managed_versioning, base_store_params
            Not supported.

        Returns
        -------
        LanceDataset
            A new handle.

        Raises
        ------
        InvalidArgumentError
            The operation does not fit the version that it is based on; the message names the fault.
            Or a message or properties were passed with a transaction.
        CommitConflictError
            A conflicting version was committed since.  ``retryable`` tells if a retry can help.
        DatasetNotFoundError
            The dataset does not exist, and the operation does not create it.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://commit-example")
        >>> change = lk.LanceOperation.UpdateConfig(lk.LanceOperation.UpdateMap({"a": "1"}))
        >>> ds = lk.LanceDataset.commit(ds, change, read_version=1, commit_message="settings")
        >>> ds.config(), ds.read_transaction(2).commit_message
        ({'a': '1'}, 'settings')
        """
        from lancekit._api.commit_settings import settings_of, target_of, transaction_of
        from lancekit._format.transaction import Transaction
        from lancekit._operations.commit import commit_operation

        refuse(
            "commit",
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            namespace_client=namespace_client,
            table_id=table_id,
            base_store_params=base_store_params,
        )
        transaction = transaction_of(operation, read_version, commit_message, properties)
        settings = settings_of(
            enable_v2_manifest_paths, detached, max_retries, commit_timeout, enable_stable_row_ids
        )
        if isinstance(operation, Transaction):
            settings = replace(settings, may_have_landed=True)
            read_version = operation.read_version
        elif read_version is not None:
            read_version = check_count("read_version", read_version)
        target = target_of(base_uri, storage_options, commit_lock)
        landed = commit_operation(target, transaction, read_version, settings)
        return cls._committed(base_uri, landed)

    @classmethod
    def commit_batch(
        cls,
        dest: DatasetRef,
        transactions: Sequence[Transaction],
        commit_lock: object = None,
        storage_options: dict[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = MAX_RETRIES,
        base_store_params: dict[str, dict[str, str]] | None = None,
        commit_timeout: timedelta | None = COMMIT_TIMEOUT,
    ) -> dict[str, Any]:
        """Commit several appends as one version.

        Parameters
        ----------
        transactions
            The appends to commit; other operations are refused.
        dest, commit_lock, storage_options, enable_v2_manifest_paths, detached
            As in `commit`; ``dest`` is its ``base_uri``.
        max_retries, base_store_params, commit_timeout
            As in `commit`.

        Returns
        -------
        dict
            ``"dataset"``, a handle at the new version, and ``"merged"``, the committed transaction.

        Raises
        ------
        InvalidArgumentError
            ``transactions`` is empty or has other operations than appends.  Else as in `commit`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://batch-example")
        >>> new = [lk.LanceFragment.create(ds.uri, {"x": [n]}) for n in (2, 3)]
        >>> appends = [lk.Transaction(1, lk.LanceOperation.Append([one])) for one in new]
        >>> lk.LanceDataset.commit_batch(ds, appends)["dataset"].to_table()["x"].to_pylist()
        [1, 2, 3]
        """
        from lancekit._api.commit_settings import settings_of, target_of, transactions_of
        from lancekit._operations.commit import commit_operation, merged_appends

        refuse("commit_batch", base_store_params=base_store_params)
        merged = merged_appends(transactions_of(transactions))
        settings = settings_of(
            enable_v2_manifest_paths, detached, max_retries, commit_timeout, None
        )
        target = target_of(dest, storage_options, commit_lock)
        landed = commit_operation(target, merged, merged.read_version, settings)
        return {"dataset": cls._committed(dest, landed), "merged": merged}

    @classmethod
    def _committed(cls, place: DatasetRef, landed: Snapshot) -> Self:
        if isinstance(place, Handle):
            return cls._at(landed, place._uri, place._scan_defaults)
        return cls._at(landed, os.fspath(place), {})


# ---- the part of a dataset handle that changes config, metadata and base paths


@checked_methods
class Settings(Handle):
    """Config, metadata of the table, of the schema and of fields, base paths, sessions."""

    def session(self) -> Session:
        """Return a session that represents the cache of this process; `dataset` accepts it."""
        from lancekit._api.pylance_session import Session

        return Session()

    def new_file_session(self) -> LanceFileSession:
        """Return a reader and writer of files in the dataset's folder, with its storage options."""
        from lancekit._file.file_session import LanceFileSession

        return LanceFileSession(self._uri, self._location.storage_options)

    def _configure(self, operation: UpdateConfig) -> Answer:
        from lancekit._operations.settings import update_settings

        return self._done("settings", lambda snapshot: update_settings(snapshot, operation))

    def _changed(self, settings: str, change: UpdateConfig) -> dict[str, str]:
        """Change settings, and return them: an attribute of the manifest."""
        from lancekit._api.answer import ChangedSettings

        done = self._configure(change)
        return ChangedSettings(attrgetter(settings)(self._snapshot.manifest), done)

    def update_config(self, values: Changes, *, replace: bool = False) -> dict[str, str]:
        """Change the table's config, move the handle, and return the new config.

        Parameters
        ----------
        values
            Values by key; ``None`` removes the key.
        replace
            Whether to remove all other keys.

        Returns
        -------
        dict
            The whole config after the change.

        Raises
        ------
        IncompatibleConflictError
            Another writer changed the same keys since the handle's version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://config-example")
        >>> sorted(ds.update_config({"owner": "ada", "stage": "raw"}))
        ['owner', 'stage']
        >>> ds.update_config({"stage": None})
        {'owner': 'ada'}
        """
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        check_mapping("values", values)
        change = UpdateConfig(config_updates=UpdateMap(values, replace))
        return self._changed("config", change)

    def delete_config_keys(self, keys: list[str]) -> Answer:
        """Remove keys from the table's config, and move the handle; missing keys are ignored."""
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        gone = UpdateMap(dict.fromkeys(check_list("keys", keys, "keys")))
        return self._configure(UpdateConfig(config_updates=gone))

    @property
    def constraints(self) -> Constraints:
        """The constraints of the table: conditions on each row, or on all rows together.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"delay": [3, -5]}, "memory://constraints-example")
        >>> _ = ds.constraints.add("delays are plausible", "delay >= -120")
        >>> try:
        ...     _ = ds.insert({"delay": [-500]})
        ... except lk.errors.ConstraintViolationError as error:
        ...     print(error.context["sample"])
        [{'delay': -500}]
        """
        from lancekit._api.constraints import Constraints

        return Constraints(self)

    def update_metadata(self, values: Changes, *, replace: bool = False) -> dict[str, str]:
        """Change the table's metadata, move the handle, and return the new metadata.

        Parameters
        ----------
        values, replace
            As in `update_config`.

        Returns
        -------
        dict
            All metadata after the change.

        Raises
        ------
        IncompatibleConflictError
            Another writer changed the same keys since the handle's version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://metadata-example")
        >>> ds.update_metadata({"source": "sensors"})
        {'source': 'sensors'}
        """
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        check_mapping("values", values)
        change = UpdateConfig(table_metadata_updates=UpdateMap(values, replace))
        return self._changed("table_metadata", change)

    def update_schema_metadata(self, values: Changes, *, replace: bool = False) -> dict[str, str]:
        """Change the schema's metadata, move the handle, and return the new metadata.

        Parameters
        ----------
        values, replace
            As in `update_config`.

        Returns
        -------
        dict
            All metadata of the schema after the change.

        Raises
        ------
        IncompatibleConflictError
            Another writer changed the schema's metadata since the handle's version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://schema-metadata-example")
        >>> ds.update_schema_metadata({"unit": "m"})
        {'unit': 'm'}
        """
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        check_mapping("values", values)
        change = UpdateConfig(schema_metadata_updates=UpdateMap(values, replace))
        return self._changed("schema.metadata", change)

    def update_field_metadata(
        self, field_updates: Mapping[str | int, Changes], *, replace: bool = False
    ) -> Answer:
        """Change the metadata of fields, and move the handle.

        Parameters
        ----------
        field_updates
            For each field, named by its path (``"s.x"`` is a field of the struct ``s``) or id:
            values by key.  ``None`` removes the key.
        replace
            Whether to remove all other keys of these fields.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        ColumnNotFoundError
            A field does not exist.
        InvalidArgumentError
            The primary-key marker of a column would change.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://field-metadata-example")
        >>> _ = ds.update_field_metadata({"x": {"unit": "m"}})
        >>> ds.schema.field("x").metadata
        {b'unit': b'm'}
        """
        from lancekit._format.operations import UpdateConfig
        from lancekit._operations.settings import field_updates as _by_id

        updates = _by_id(self._snapshot.manifest.schema, field_updates, replace=replace)
        return self._configure(UpdateConfig(field_metadata_updates=updates))

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> Answer:
        """Replace the schema's metadata; deprecated, as in pylance."""
        _deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        check_mapping("new_metadata", new_metadata)
        new = UpdateMap(new_metadata, replace=True)
        return self._configure(UpdateConfig(schema_metadata_updates=new))

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> Answer:
        """Replace the metadata of a field; deprecated, as in pylance.

        Parameters
        ----------
        field_name
            The path of the field.
        new_metadata
            The new texts by key.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        ColumnNotFoundError
            The field does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://replace-metadata-example")
        >>> _ = ds.update_field_metadata({"x": {"unit": "m"}}, replace=True)
        """
        _deprecated(
            "replace_field_metadata", "update_field_metadata({field: metadata}, replace=True)"
        )
        return self.update_field_metadata({field_name: new_metadata}, replace=True)

    def add_bases(
        self, new_bases: Iterable[BasePath], transaction_properties: dict[str, str] | None = None
    ) -> Self:
        """Add base paths: further places for files of the dataset.  The handle moves.

        Parameters
        ----------
        new_bases
            `lancekit.DatasetBasePath` objects, each with its own name and path.
        transaction_properties
            Stored in the transaction.

        Returns
        -------
        LanceDataset
            This handle.

        Raises
        ------
        InvalidArgumentError
            A name or a path is in use already.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://add-bases-example")
        >>> more = lk.DatasetBasePath("memory://add-bases-more", "more")
        >>> ds.add_bases([more]).base_paths()[1].path
        'memory://add-bases-more'
        """
        from lancekit._operations.settings import add_base_paths

        bases = tuple(check_list("new_bases", new_bases, "DatasetBasePath"))
        properties = dict(check_mapping("transaction_properties", transaction_properties or {}))
        self._move(lambda snapshot: (add_base_paths(snapshot, bases, properties), None))
        return self


def _deprecated(old: str, new: str) -> None:
    warn(f"{old} is deprecated. Use {new} instead.", DeprecationWarning)
