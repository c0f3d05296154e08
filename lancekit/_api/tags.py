"""`Tags`: names for versions, and the code that they share with branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from lancekit._api.answer import Answer
from lancekit._api.hinting import hinting_operators
from lancekit._api.listed import FramedByName
from lancekit._checked import checked_methods
from lancekit._choice import check_choice
from lancekit._commit import refs
from lancekit._format.refs import Branch, Tag
from lancekit._versions import reference_files
from lancekit._versions.branch_location import BranchLocation
from lancekit.errors import InvalidTypeError

R = TypeVar("R", Tag, Branch)
# aliases, because the classes have a method named ``list``
#: the data of a tag or a branch
RefInfo: TypeAlias = dict[str, Any]
Pairs: TypeAlias = list[tuple[str, RefInfo]]
NamesAndRefs: TypeAlias = tuple[tuple[str, ...], Pairs | None]


class AtVersion(Protocol):
    """The attributes that tags need of a handle or a history: a branch location and a version."""

    @property
    def version(self) -> int:
        """The default version of a new tag."""

    @property
    def _location(self) -> BranchLocation: ...


class Movable(AtVersion, Protocol):
    """A handle, which opens other versions."""

    def checkout_version(self, version: str) -> Self:
        """Return a handle at another version."""


A_co = TypeVar("A_co", bound=AtVersion, covariant=True)
M = TypeVar("M", bound=Movable)


def _tag_dict(tag: Tag) -> RefInfo:
    times = {"created_at": tag.created_at, "updated_at": tag.updated_at}
    return {
        "branch": tag.branch,
        "version": tag.version,
        **{key: moment for key, moment in times.items() if moment is not None},
        "manifest_size": tag.manifest_size,
        "metadata": dict(tag.metadata),
    }


def ordered(found: Mapping[str, R], order: str | None, key: Callable[[R], int]) -> list[str]:
    """Sort names by the number that `key` returns, largest first unless `order` is ``"asc"``."""
    if order is not None:
        check_choice("order", order, ("asc", "desc"))
    sign = 1 if order == "asc" else -1
    return sorted(found, key=lambda name: (sign * key(found[name]), name))


def check_name(name: object, what: str) -> str:
    """Return a name; ``InvalidTypeError`` if it is not a string."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"A {what} name must be a string, got {name!r}.", name=name)
    return name


class Refs(FramedByName, Generic[A_co]):
    """The names of tags or branches as a container: ``in``, ``len``, iteration over the names.

    `to_pandas` and `to_polars` return them as rows, sorted by version, newest first.
    """

    #: the columns besides the name
    _columns: ClassVar[tuple[str, ...]]

    def __init__(self, handle: A_co) -> None:
        self._handle = handle  # read each time, because it moves

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        raise NotImplementedError

    def keys(self) -> tuple[str, ...]:
        """Return the names as `names` does, for ``dict(ds.tags)``, which opens each version."""
        return self.names()

    def list_ordered(self, order: Literal["asc", "desc"] | None = None) -> Pairs:
        """Return the names and their data, by version."""
        raise NotImplementedError

    def _described(self) -> tuple[Iterable[object], tuple[str, ...]]:
        pairs = self.list_ordered()
        return ({"name": name, **info} for name, info in pairs), ("name", *self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        return True  # a test for None must not list a store

    _items_by_name = _ipython_key_completions_ = __iter__

    def _location(self) -> BranchLocation:
        return self._handle._location

    def _done(self, call: str, **given: object) -> Answer:
        """Return the answer of a call, which has not moved the handle."""
        version, branch = self._handle.version, self._location().name
        return Answer(call=call, version=version, branch=branch, _given=given)


@hinting_operators("__setitem__ __delitem__ __call__ __enter__ __exit__")
@checked_methods
class Tags(Refs[A_co]):
    """The tags of a dataset, whatever branch the handle is on.

    ``ds.tags["name"]`` opens the version of a tag.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1]}), "memory://tags-example")
    >>> ds.tags.create("first", 1)
    tag first created on main:1; ds.tags.delete('first') takes it back
    >>> ds.tags.get_version("first"), list(ds.tags), ds.tags["first"].count_rows()
    (1, ['first'], 1)
    """

    _columns = ("branch", "version", "created_at", "updated_at", "metadata")

    def __getitem__(self: Tags[M], tag: str) -> M:
        """Return a handle at the version of a tag; ``TagNotFoundError`` if it does not exist."""
        return self._handle.checkout_version(check_name(tag, "tag"))

    def names(self) -> tuple[str, ...]:
        """Return the names of the tags, sorted; unlike `list`, this reads no file."""
        return tuple(reference_files.tag_files(self._location().root))

    def list(self) -> dict[str, dict[str, Any]]:
        """Return each tag's branch (``None``: main), version, times and metadata, by name."""
        return {
            name: _tag_dict(tag)
            for name, tag in reference_files.list_tags(self._location().root).items()
        }

    def list_ordered(self, order: Literal["asc", "desc"] | None = None) -> Pairs:
        """Return the tags by version, the newest first unless ``order`` is ``"asc"``."""
        return self._pairs(reference_files.list_tags(self._location().root), order)

    def _names_and_refs(self, most: int) -> NamesAndRefs:
        """Return `names`, and `list_ordered` if there are at most ``most``, from one listing."""
        root = self._location().root
        files = reference_files.tag_files(root)
        found = None if len(files) > most else reference_files.list_tags(root, files)
        return tuple(files), None if found is None else self._pairs(found)

    def _pairs(self, found: Mapping[str, Tag], order: str | None = None) -> Pairs:
        names = ordered(found, order, lambda tag: tag.version)
        return [(name, _tag_dict(found[name])) for name in names]

    def get_version(self, tag: str) -> int:
        """Return the version that a tag points to; ``TagNotFoundError`` if it does not exist."""
        return reference_files.get_tag(self._location().root, check_name(tag, "tag")).version

    def create(
        self, tag: str, reference: int | str | tuple[str | None, int | None] | None = None
    ) -> Answer:
        """Create a tag on a version.

        Parameters
        ----------
        tag
            The name: ASCII letters, digits, ``.``, ``-`` and ``_``.
        reference
            A version of this branch, a tag, or a pair of branch and version; the handle's by
            default.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        RefConflictError
            The tag exists already.
        InvalidArgumentError
            The name is not allowed.
        VersionNotFoundError
            The version does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://tag-create-example")
        >>> _ = ds.tags.create("jan")
        >>> ds.tags.get_version("jan")
        1
        """
        target = self._handle.version if reference is None else reference
        made = refs.create_tag(self._location(), check_name(tag, "tag"), target)
        return self._answer("tags.create", tag, made)

    def update(
        self, tag: str, reference: int | str | tuple[str | None, int | None] | None = None
    ) -> Answer:
        """Point an existing tag to another version.

        Parameters
        ----------
        tag
            The name of the tag.
        reference
            As in `create`.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        TagNotFoundError
            The tag does not exist.
        VersionNotFoundError
            The version does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://tag-update-example")
        >>> _ = ds.tags.create("good")
        >>> _ = ds.insert({"x": [2]})
        >>> _ = ds.tags.update("good", 2)
        >>> ds.tags.get_version("good")
        2
        """
        target = self._handle.version if reference is None else reference
        old, new = refs.update_tag(self._location(), check_name(tag, "tag"), target)
        return self._answer("tags.update", tag, new, old)

    def delete(self, tag: str) -> Answer:
        """Delete a tag; the version stays."""
        old = refs.delete_tag(self._location().root, check_name(tag, "tag"))
        return self._answer("tags.delete", tag, None, old)

    def _answer(self, call: str, name: str, new: Tag | None, old: Tag | None = None) -> Answer:
        return self._done(call, name=name, new=new, old=old, here=self._location().branch)

    def replace_metadata(self, tag: str, metadata: dict[str, str]) -> Answer:
        """Replace the key-value metadata of a tag.

        Parameters
        ----------
        tag
            The name of the tag.
        metadata
            The new texts by key.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        TagNotFoundError
            The tag does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://tag-metadata-example")
        >>> _ = ds.tags.create("jan")
        >>> _ = ds.tags.replace_metadata("jan", {"owner": "ada"})
        >>> ds.tags.list()["jan"]["metadata"]
        {'owner': 'ada'}
        """
        name = check_name(tag, "tag")
        refs.replace_tag_metadata(self._location().root, name, metadata)
        return self._done("replace_metadata", ref=f"tag {name}", keys=[*metadata])

    def _plain(self) -> str:
        return f"Tags({self._location().root.uri!r})"
