"""The part of a handle that changes config, metadata and base paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_list, check_mapping
from lancekit._checked import checked_methods
from lancekit._format.manifest import BasePath
from lancekit._legible import warn

if TYPE_CHECKING:
    from lancekit._api.constraints import Constraints
    from lancekit._api.pylance_session import Session
    from lancekit._file.file_session import LanceFileSession
    from lancekit._format.operations import UpdateConfig
    from lancekit._operations.settings import Changes

__all__ = ["Settings"]


@checked_methods
class Settings(Handle):
    """Config, metadata of the table, the schema and the fields, base paths, sessions."""

    def session(self) -> Session:
        """Return what stands for the process's cache; it may be passed to `dataset`."""
        from lancekit._api.pylance_session import Session

        return Session()

    def new_file_session(self) -> LanceFileSession:
        """Return what reads and writes files in the dataset's folder, with its options."""
        from lancekit._file.file_session import LanceFileSession

        return LanceFileSession(self._uri, self._line.storage_options)

    def _configure(self, operation: UpdateConfig) -> None:
        from lancekit._operations.settings import update_settings

        self._move(lambda snapshot: (update_settings(snapshot, operation), None))

    def update_config(self, values: Changes, *, replace: bool = False) -> dict[str, str]:
        """Change the table's config, move the handle, and return the new config.

        Parameters
        ----------
        values
            Values by key; ``None`` removes the key.
        replace
            Whether the config becomes exactly these values.

        Raises
        ------
        IncompatibleConflictError
            Somebody else changed the same keys since the handle's version.

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
        self._configure(UpdateConfig(config_updates=UpdateMap(values, replace)))
        return dict(self._snapshot.manifest.config)

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove keys from the table's config, and move the handle; missing ones are no error."""
        self.update_config(dict.fromkeys(check_list("keys", keys, "keys")))

    @property
    def constraints(self) -> Constraints:
        """The table's constraints: conditions that its rows, or all of them together, have to meet.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"delay": [3, -5]}, "memory://constraints-example")
        >>> ds.constraints.add("delays are plausible", "delay >= -120")
        >>> try:
        ...     ds.insert({"delay": [-500]})
        ... except lk.errors.ConstraintViolationError as error:
        ...     print(error.context["sample"])
        [{'delay': -500}]
        """
        from lancekit._api.constraints import Constraints

        return Constraints(self)

    def update_metadata(self, values: Changes, *, replace: bool = False) -> dict[str, str]:
        """Change the table's own metadata; arguments as in `update_config`."""
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        check_mapping("values", values)
        self._configure(UpdateConfig(table_metadata_updates=UpdateMap(values, replace)))
        return dict(self._snapshot.manifest.table_metadata)

    def update_schema_metadata(self, values: Changes, *, replace: bool = False) -> dict[str, str]:
        """Change the schema's metadata; arguments as in `update_config`."""
        from lancekit._format.operation_parts import UpdateMap
        from lancekit._format.operations import UpdateConfig

        check_mapping("values", values)
        self._configure(UpdateConfig(schema_metadata_updates=UpdateMap(values, replace)))
        return dict(self._snapshot.manifest.schema.metadata)

    def update_field_metadata(
        self, field_updates: Mapping[str | int, Changes], *, replace: bool = False
    ) -> None:
        """Change the metadata of fields, and move the handle.

        Parameters
        ----------
        field_updates
            For each field, named by its path (``"s.x"`` lies in the struct ``s``) or id: values
            by key; ``None`` removes the key.
        replace
            Whether the metadata of these fields become exactly these values.

        Raises
        ------
        ColumnNotFoundError
            There is no such field.
        InvalidArgumentError
            The mark of a primary-key column would change.
        """
        from lancekit._format.operations import UpdateConfig
        from lancekit._operations.settings import field_updates as _by_id

        schema = self._snapshot.manifest.schema
        updates = _by_id(schema, field_updates, replace=replace)
        self._configure(UpdateConfig(field_metadata_updates=updates))

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Replace the schema's metadata; deprecated, as in pylance."""
        _deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(new_metadata, replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Replace the metadata of a field; deprecated, as in pylance."""
        _deprecated(
            "replace_field_metadata", "update_field_metadata({field: metadata}, replace=True)"
        )
        self.update_field_metadata({field_name: new_metadata}, replace=True)

    def add_bases(
        self,
        new_bases: Iterable[BasePath],
        transaction_properties: dict[str, str] | None = None,
    ) -> Self:
        """Add other places that files of the dataset may lie in; the handle moves and is returned.

        Parameters
        ----------
        new_bases
            Made by `lancekit.DatasetBasePath`; each with a name and a path of its own.
        transaction_properties
            Kept in the transaction.

        Raises
        ------
        InvalidArgumentError
            A name or a path is taken.
        """
        from lancekit._operations.settings import add_base_paths

        bases = tuple(check_list("new_bases", new_bases, "DatasetBasePath"))
        properties = dict(check_mapping("transaction_properties", transaction_properties or {}))
        self._move(lambda snapshot: (add_base_paths(snapshot, bases, properties), None))
        return self


def _deprecated(old: str, new: str) -> None:
    warn(f"{old} is deprecated. Use {new} instead.", DeprecationWarning)
