"""One merge of branches: what it should make of three versions, and what is compared with that."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.branch_model import Column, Merged, Node, Table

__all__ = [
    "MAIN",
    "Case",
    "Line",
    "check",
    "check_conflicts",
    "check_counts",
    "columns_of",
    "counts_of",
    "fits",
    "have_same_names",
    "side_by_side",
]

MAIN = "main"


@dataclass
class Line:
    """A branch of a dataset or a clone: its path, its parent, and the versions that are there."""

    name: str
    path: str
    branch: str = MAIN
    parent: str | None = None
    fork: Node | None = None
    nodes: dict[int, Node] = field(default_factory=dict)
    #: versions that are listed, and of which pylance's cleanup removed files
    broken: dict[int, Node] = field(default_factory=dict)
    #: this line's versions and those that it forked from, also after a cleanup
    chain: list[Node] = field(default_factory=list)

    @property
    def last(self) -> int:
        return max(self.nodes)

    @property
    def newest(self) -> Node:
        return self.nodes[self.last]

    def put(self, version: int, node: Node) -> None:
        self.nodes[version] = node
        self.chain.append(node)


@dataclass(frozen=True)
class Case:
    """A merge, a rebase, a pick or a revert: three versions, and what comes of them."""

    doing: str
    bases: Sequence[Node]
    theirs: Node
    ours: Node
    whose: str
    merged: Merged
    bases_are_there: bool
    #: versions between a base and a side are gone, which would tell what became of columns
    has_gap: bool = False
    #: a side is in a clone whose first version is gone, which would tell where the clone comes from
    is_cut_off: bool = False
    #: the branch that is merged
    source: Line | None = None
    #: whether the user named the base
    is_named: bool = False
    #: rows are told by row ids: one that has other ids on both sides counts as another row
    by_ids: bool = False

    @property
    def is_edge(self) -> bool:
        """Whether the new version contains theirs."""
        return self.doing in ("merge", "rebase")

    @property
    def least(self) -> int:
        """How many versions have to come of it: a merge is recorded, whatever it changes."""
        return int(self.is_edge or self.merged.table != self.ours.table)

    @property
    def is_ahead(self) -> bool:
        """Whether ours did not move since the branch forked from it."""
        base = [*self.bases] == [self.ours]
        return base and self.source is not None and self.ours in self.source.chain

    @property
    def is_guessed(self) -> bool:
        """Whether versions are gone that tell a cast column from another one.

        Of a clone that is cut off from its source, nothing tells renamed columns, either.
        """
        return self.has_gap and any(
            (was.type != now.type or self.is_cut_off) and was.is_same(now) != (name == other)
            for base in self.bases
            for side in (self.theirs, self.ours)
            for name, was in base.table.columns.items()
            for other, now in side.table.columns.items()
        )

    @property
    def has_namesake(self) -> bool:
        """Whether versions are gone that tell a renamed column from another of its first name."""
        return self.has_gap and any(
            name in side.table.columns
            and not was.is_same(side.table.columns[name])
            and was.type == side.table.columns[name].type
            and any(was.is_same(now) for now in side.table.columns.values())
            for base in self.bases
            for side in (self.theirs, self.ours)
            for name, was in base.table.columns.items()
        )

    @property
    def refused(self) -> bool:
        return self.whose == "fail" and bool(self.merged.clashes or self.merged.column_clashes)

    @property
    def columns(self) -> tuple[Set[Any], ...]:
        """The columns added, dropped, renamed and cast."""
        merged = self.merged
        return merged.added, merged.dropped, merged.renamed, merged.cast

    @property
    def node(self) -> Node:
        """The version that comes of it."""
        node = self.ours.follow(self.merged.table, *([self.theirs] if self.is_edge else []))
        if self.is_named:
            node.repeats = None
        return node if self.is_edge else _without_edge(node, self.ours, self.merged.added)


def _without_edge(node: Node, ours: Node, added: Set[str]) -> Node:
    """Give the columns that a pick brought identities of their own: it is no merge."""
    known = {id_ for column in ours.table.columns.values() for id_ in column.ids}
    columns = {
        name: Column(column.type) if name in added else replace(column, ids=column.ids & known)
        for name, column in node.table.columns.items()
    }
    return Node(replace(node.table, columns=columns), node.contains, parent=node.parent)


def have_same_names(tables: Sequence[Table]) -> bool:
    """Tell whether columns are the same on each side just if they have the same name."""
    return all(
        (name == other) == one.columns[name].is_same(two.columns[other])
        for one in tables
        for two in tables
        for name in one.columns
        for other in two.columns
    )


def check(ds: Any, table: Table) -> None:
    """Compare what a library reads with the model: names, types, rows in any order."""
    read = ds.to_table()
    rows = {row["k"]: row for row in read.to_pylist()}
    assert len(rows) == read.num_rows == ds.count_rows(), "a key occurs twice"
    found = {f.name: str(f.type) for f in read.schema}, rows
    assert found == table.seen, f"read:\n{found}\nwant:\n{table.seen}"


def side_by_side(before: Table, merged: Table, changed: Table) -> Table | None:
    """Return a merge and another change of the rows of one table; neither saw the other.

    `None` if both changed one row, or one of them changed columns.
    """
    if not before.seen[0] == merged.seen[0] == changed.seen[0]:
        return None
    ours, theirs = (
        {k for k in before.rows.keys() | side.rows if before.rows.get(k) != side.rows.get(k)}
        for side in (merged, changed)
    )
    left = {k: row for k, row in merged.rows.items() if k not in theirs}
    came = {k: row for k, row in changed.rows.items() if k in theirs}
    return None if ours & theirs else replace(merged, rows={**left, **came})


def counts_of(found: Any) -> tuple[int, int, int, int]:
    """Return rows inserted, updated, deleted, and changed values."""
    return (
        found.num_inserted_rows,
        found.num_updated_rows,
        found.num_deleted_rows,
        found.num_changed_cells,
    )


def columns_of(found: Any) -> tuple[set[Any], ...]:
    """Return the columns added, dropped, renamed and cast."""
    return tuple(
        set(getattr(found, f"columns_{done}")) for done in ("added", "dropped", "renamed", "cast")
    )


def check_counts(result: Any, case: Case) -> None:
    found, expected = counts_of(result), case.merged.counts
    assert min(found) >= 0, found
    if result.how == "fast-forward":
        # counted by metadata: a row that got the value that it had counts, too
        found, expected = ((i - d, 0, 0, cells) for i, _, d, cells in (found, expected))
        expected = *expected[:3], expected[3] - _untold_cells(result, case)
    if case.by_ids:
        found, expected = ((i - d, 0, 0, 0) for i, _, d, _ in (found, expected))
    told = f"inserted, updated, deleted, cells: {found}, want {expected} ({result.how})"
    assert found == expected, told
    if not case.has_gap:
        assert columns_of(result) == case.columns, (
            f"columns: {columns_of(result)}, want {case.columns}"
        )


def _untold_cells(result: Any, case: Case) -> int:
    """Count new values of renamed columns that count as dropped and added: versions are gone."""
    untold = [
        (old, new)
        for old, new in case.merged.renamed
        if case.has_gap and old in result.columns_dropped and new in result.columns_added
    ]
    before, after = case.ours.table.rows, case.merged.table.rows
    return sum(
        before[key][old] != after[key][new]
        for old, new in untold
        for key in before.keys() & after.keys()
    )


def fits(ds: Any, result: Any, node: Node, case: Case) -> bool:
    """Tell whether a merge made a version, and counted what the case says."""
    try:
        check(ds, node.table)
        check_counts(result, case)
    except AssertionError:
        return False
    return True


def check_conflicts(found: Any, case: Case) -> None:
    """Compare cells; where columns conflict, these alone."""
    assert bool(found.by_column) == bool(case.merged.column_clashes), found.by_column
    if found.by_column:
        return
    cells = set()
    for row in found.to_table().to_pylist():
        names = row["_columns"] if row["_conflict"] == "update/update" else [None]
        # a table without a key names rows by their ids
        key = next(row[side]["k"] for side in ("base", "ours", "theirs") if row[side])
        cells |= {(key, name) for name in names}
    if len(case.bases) > 1:  # the first one says what each side did to a row
        assert {key for key, _ in cells} == {key for key, _ in case.merged.clashes}
        return
    assert cells == case.merged.clashes, f"conflicts: {cells}, want {set(case.merged.clashes)}"
