"""The workbench of a merge-insert: choose keys and rules, and preview their effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancekit._api.merge_builder import MergeInsertBuilder
from lancekit._format.paths import top_of
from lancekit._notebook.cards.common import facts, ref
from lancekit._notebook.cards.explanations import merge_plan_card
from lancekit._notebook.render.controls import error_text
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, listing, plural
from lancekit._notebook.workbench.bench import Bench, Panel, undo_newest
from lancekit._notebook.workbench.rules import Rules, built, code_of, rules_of
from lancekit._notebook.workbench.steps import State
from lancekit._operations.common.results import MergeResult
from lancekit._operations.explain.merge import MergePlan
from lancekit._pipeline.casts.rules import find_rule
from lancekit._pipeline.engine import choose_source
from lancekit._pipeline.inputs import as_reader, in_memory, is_replayable, is_spark_dataframe, owned
from lancekit._pipeline.source import open_source
from lancekit._pipeline.source_keys import SourceKeys, key_columns
from lancekit._versions.listing import latest_snapshot, list_versions
from lancekit.errors import DuplicateKeysError, NullKeyError
from lancekit.options import options

_State: TypeAlias = State[Rules, MergePlan, MergeResult]


class MergeBench(Bench[Rules, MergePlan, MergeResult]):
    """A merge-insert of buffered source rows; `MergeInsertBuilder.interactive` returns one.

    builder: the merge with its rules so far.
    data, schema: the source, as in `MergeInsertBuilder.execute`.
    panel: builds the widgets.
    """

    def __init__(
        self,
        builder: MergeInsertBuilder,
        data: object,
        schema: pa.Schema | None,
        panel: Callable[[MergeBench], Panel],
    ) -> None:
        self._builder = builder
        self._handle = builder._handle
        self.source = buffer_source(data, schema, self._handle._snapshot.row_schema)
        key = tuple(field.name for field in self._handle._snapshot.manifest.schema.primary_key)
        rules = rules_of(builder, builder._clauses.on or key)
        super().__init__(rules, panel, on_demand=self.source.on_demand)
        self._rows = "df" if schema is None else "df, schema=schema"
        if not self.source.on_demand:
            self._make_preview(rules)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that can be keys: columns of both sides, and the chosen keys."""
        names = self.schema.names
        both = [name for name in self.source.schema.names if name in names]
        return tuple(dict.fromkeys([*both, *self.state.choices.on]))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the dataset."""
        return self._handle._snapshot.row_schema

    @property
    def code(self) -> str:
        """The call that merges by the chosen rules."""
        return code_of(self._builder, self.state.choices, self._rows)

    def view(self, now: datetime, *, why: bool = True) -> Card:
        """Return the card of the preview; without one, ``why`` puts the error into the headline."""
        state = self.state
        source, rules, plan = self.source, state.choices, state.plan
        problems, differing = source.key_problems(rules.on), drift(source.schema, self.schema)
        about = facts(
            ("null keys", _nulls(problems, state)),
            ("duplicate keys", _repeated(problems, rules)),
            ("schema", _drift_words(differing)),
        )
        tables = (*_repeated_table(problems, rules), *_drift_table(differing, rules))
        if isinstance(plan, MergePlan):
            card = merge_plan_card(plan, now)
            rest = tuple(fact for fact in card.facts if fact.label not in {"apply", "duplicates"})
            return replace(card, facts=(*about, *rest), tables=(*tables, *card.tables))
        reason = "not previewed yet: a preview runs on Spark"
        if state.error is not None:
            reason = " ".join(error_text(state.error).split()) if why else "no preview"
        return Card(
            kind="Merge plan",
            title=f"merge on {listing(rules.on, options.display_columns) or 'no key'}",
            headline=(reason,),
            facts=about,
            tables=tables,
        )

    # ---- the operation

    def _preview(self, choices: Rules) -> MergePlan:
        handle = self._handle
        newest = handle._snapshot
        if not handle._read_only and list_versions(handle._location).latest != newest.version:
            newest = latest_snapshot(handle._location)
        return built(self._builder, choices)._preview_at(newest, self.source.rows, self.source.cast)

    def _newer_commits(self, plan: MergePlan) -> str:
        handle = self._handle
        latest = plan.version if handle._read_only else list_versions(handle._location).latest
        if latest == plan.version:
            return ""
        was, now = ref(plan.branch, plan.version), ref(plan.branch, latest)
        return f"Others committed: {was} is now {now}. Check the new preview, then apply again."

    def _base_version(self, plan: MergePlan) -> int:
        return plan.version

    def _apply(self, plan: MergePlan) -> MergeResult:
        return plan.apply()

    def _undo_result(self, result: MergeResult) -> str:
        handle = self._handle
        location = handle._location if result.location is None else result.location
        handle._move(lambda _: undo_newest(location, result.version))
        where, there = (ref(result.branch, v) for v in (handle.version, result.version - 1))
        return f"Undone: {where} has the rows of {there}."

    def _release(self, plan: MergePlan) -> None:
        plan.close()

    # ---- display

    def _card(self, now: datetime) -> Card:
        card = self.view(now)
        return replace(card, facts=(*card.facts, code_fact(self.code)))

    def _plain(self) -> str:
        return f"MergeBench({self._handle.uri!r})"


# ---- problems with the source's keys


def _nulls(problems: KeyProblems, state: _State) -> str:
    if not problems.nulls:
        return ""
    fate = "is inserted as new" if state.choices.new == "insert" else "is skipped"
    rows = f"{plural(problems.nulls, 'source row')} with a null in the key"
    if isinstance(state.error, NullKeyError):
        return f"{rows}, which is not allowed"
    return f"{rows}: null matches no row, so each {fate}"


def _repeated(problems: KeyProblems, rules: Rules) -> str:
    if not problems.repeated:
        return ""
    words = {
        "first": "the first row of each key is kept",
        "last": "the last row of each key is kept",
        "largest": f"the row of each key with the largest {clean(rules.largest)} is kept",
    }
    refused = "refused: choose which row to keep"
    return words.get(rules.dedupe, refused)


def _repeated_table(problems: KeyProblems, rules: Rules) -> Iterator[Table]:
    if problems.repeated:
        shown = problems.repeated[: options.display_rows]
        yield Table(
            caption="Duplicate keys of the source",
            columns=tuple(Column(clean(name)) for name in rules.on),
            rows=tuple(Row(tuple(map(cell, key))) for key in shown),
            note=f"first {plural(len(shown), 'duplicate key')}",
        )


# ---- schema drift


def _drift_words(differing: tuple[_Drift, ...]) -> str:
    kinds = {
        "not in the dataset": [one for one in differing if one.dataset is None],
        "of another type": [one for one in differing if one.source and one.dataset],
        "not in the source": [one for one in differing if one.source is None],
    }
    return "; ".join(f"{count(len(some))} {kind}" for kind, some in kinds.items() if some)


def _drift_table(differing: tuple[_Drift, ...], rules: Rules) -> Iterator[Table]:
    if differing:
        shown = differing[: options.display_columns]
        yield Table(
            caption="Columns that differ",
            columns=tuple(map(Column, ("column", "source", "dataset", "result"))),
            rows=tuple(_drifted(one, rules) for one in shown),
            note=f"{count(len(shown))} of {plural(len(differing), 'column')}",
            folded=all(one.fits for one in differing),
        )


def _drifted(one: _Drift, rules: Rules) -> Row:
    types = ("—" if kind is None else clean(str(kind)) for kind in (one.source, one.dataset))
    return Row((clean(one.column), *types, _fate(one, rules)), quiet=one.source is None)


def _fate(one: _Drift, rules: Rules) -> str:
    if one.dataset is None:
        return "refused: leave it out, or add the column to the dataset first"
    if one.source is None:
        kept = "keeps its values" if rules.matched.startswith("update") else ""
        new = "null in new rows" if rules.new == "insert" else ""
        return ", ".join(filter(None, [kept, new])) or "unchanged"
    return "cast, if no value is lost" if one.fits else "refused: cast it first"


def code_fact(code: str) -> Fact:
    """Return a fact with the code of the chosen operation."""
    return Fact("code", code, code=True)


# ---- the source of a merge, buffered while rules are chosen, and problems with its keys


@dataclass(frozen=True, slots=True)
class KeyProblems:
    """Problems with the keys of a source.

    nulls: the number of rows with a null in the key.
    repeated: some of the keys that occur more than once.
    """

    nulls: int = 0
    repeated: tuple[tuple[object, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a merge, readable several times.

    rows: the source for every preview and for the merge.
    schema: the schema of the source.
    on_demand: True if a preview needs Spark.
    cast: the schema to which the rows still have to be cast.
    """

    rows: object
    schema: pa.Schema
    on_demand: bool
    cast: pa.Schema | None = None
    _known: dict[tuple[str, ...], KeyProblems] = field(default_factory=dict)

    def key_problems(self, on: tuple[str, ...]) -> KeyProblems:
        """Return the problems of a key; for rows that are not in memory, none are known."""
        if on not in self._known:
            table = self.rows if isinstance(self.rows, pa.Table) else None
            there = {top_of(name) if name not in self.schema.names else name for name in on}
            missing = there - set(self.schema.names)
            self._known[on] = KeyProblems() if table is None or missing else _problems(table, on)
        return self._known[on]


def buffer_source(data: object, schema: pa.Schema | None, like: pa.Schema) -> _Source:
    """Buffer source rows as an Arrow table; Spark and replayable file sources stay unread.

    data, schema, like: as in `open_source`.

    Raises InvalidTypeError, SchemaMismatchError: as in `open_source`.
    """
    on_demand = choose_source(data, is_frame=is_spark_dataframe(data)).engine == "spark"
    if on_demand or (is_replayable(data) and not in_memory(data)):
        with open_source(data, schema, like) as source:
            return _Source(data, source.schema, on_demand, schema)
    rows = owned(data, schema, like)
    if schema is not None or not isinstance(rows, pa.Table):
        rows = as_reader(rows, schema, like).read_all()
    return _Source(rows, rows.schema, on_demand=False)


def _problems(rows: pa.Table, on: tuple[str, ...]) -> KeyProblems:
    columns = key_columns(rows, on)
    nulls = np.zeros(rows.num_rows, bool)
    for column in columns:
        nulls |= column.is_null().to_numpy(zero_copy_only=False)
    repeated: tuple[tuple[object, ...], ...] = ()
    try:
        SourceKeys.choose(on, columns)
    except DuplicateKeysError as error:
        repeated = tuple(error.context["keys"])
    except (pa.ArrowException, TypeError):
        pass  # the type cannot be a key: the preview's error explains it better
    return KeyProblems(int(nulls.sum()), repeated)


@dataclass(frozen=True, slots=True)
class _Drift:
    """A column that differs between source and dataset; a missing column has the type ``None``."""

    column: str
    source: pa.DataType | None
    dataset: pa.DataType | None

    @property
    def fits(self) -> bool:
        """True if a merge accepts the difference."""
        if self.source is None or self.dataset is None:
            return self.source is None
        return find_rule(self.source, self.dataset) is not None


def drift(source: pa.Schema, dataset: pa.Schema) -> tuple[_Drift, ...]:
    """Return the columns that differ: columns of the source first, then columns it lacks."""
    kinds = {field_.name: field_.type for field_ in dataset}
    given = dict(reversed([(field_.name, field_.type) for field_ in source]))

    def found() -> Iterator[_Drift]:
        for name in dict.fromkeys(source.names):
            here, there = kinds.get(name), given[name]
            if here != there:
                yield _Drift(name, there, here)
        for field_ in dataset:
            if field_.name not in given:
                yield _Drift(field_.name, None, field_.type)

    return tuple(found())
