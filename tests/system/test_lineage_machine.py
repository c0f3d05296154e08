"""Any order of changes, forks, clones, merges and cleanups on up to four branches, against a model.

Both libraries change rows and columns and clean up; lancekit merges both ways, rebases, picks,
reverts, applies diffs of clones and undoes, while another writer may land a change between plan and
commit.  The model is a graph of versions with rows and columns by identity
(`tests/support/branch_model.py`).  It says which rows and columns come of a merge, which conflicts,
and which counts; a refused merge changes nothing, and pylance reads every step.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import get_state_machine_test, invariant, precondition, rule

import lancekit as lk
from lancekit import errors
from tests.support import branch_steps as steps
from tests.support.branch_cases import (
    Case,
    Line,
    check,
    check_conflicts,
    check_counts,
    columns_of,
    counts_of,
    fits,
    have_same_names,
    side_by_side,
)
from tests.support.branch_model import (
    Ambiguous,
    Node,
    bases_of_merge,
    between,
    three_way,
)
from tests.support.branch_steps import COLUMN_STEPS
from tests.support.branched_table import BranchedTable, note
from tests.support.faults import Call, Faults, injected

SETTLE = st.sampled_from(["fail", "fail", "ours", "theirs"])


#: what main cannot do yet; each predicate tells the merges that are left out for it
EXCLUDED: dict[str, Callable[[Case], bool]] = {
    # docs/reference/branches-details.md: "Casts are found by name alone"
    "versions that tell of casts were cleaned up": lambda case: case.is_guessed,
    # docs/reference/branches-details.md: "a column that came by a merge whose version or branch is
    # gone, if the column's name is gone too": otherwise the name identifies it
    "versions that tell of columns of one name were cleaned up": lambda case: case.has_namesake,
}
#: how many merges were left out for each reason, and how many of each kind were compared
left_out: Counter[str] = Counter()
compared: Counter[str] = Counter()
#: how many histories and steps were run
done: Counter[str] = Counter()


def or_untold(merge: Callable[..., None]) -> Callable[..., None]:
    """Let a rule end with the error that nothing tells which columns are one, if that is so."""

    @functools.wraps(merge)
    def run(self: BranchMachine, *args: Any, **named: Any) -> None:
        self.may_be_untold = False
        try:
            merge(self, *args, **named)
        except (errors.SchemaMismatchError, errors.InvalidArgumentError) as error:
            reason = self.why_untold(error)
            if reason is None:
                raise
            left_out[reason] += 1

    return run


class BranchMachine(BranchedTable):
    """Merges of all kinds between the branches of a table."""

    #: versions are gone that a rule needs to tell renamed columns from others
    may_be_untold = False

    def __init__(self) -> None:
        super().__init__()
        done.update(histories=1, steps=-1)  # the first look is at the table as it was made

    def why_untold(self, error: errors.LancekitError) -> str | None:
        """Return why a merge may be refused, if it may be so with an error."""
        is_untold = self.may_be_untold and "may or may not be column" in str(error)
        return "nothing tells what became of a column" if is_untold else None

    @invariant()
    def count(self) -> None:
        done["steps"] += 1

    def case(
        self,
        doing: str,
        bases: Sequence[Node],
        theirs: Node,
        ours: Node,
        whose: str,
        source: Line | None = None,
        *,
        named: bool = False,
        is_across: bool = False,
    ) -> Case | None:
        """Return what a merge should do; `None` if it is left out.

        ``is_across`` tells that a diff of one dataset is done in another: in or of a clone.
        """
        if len(bases) == 1 and bases[0].table == theirs.table and doing not in ("merge", "rebase"):
            return None  # nothing happened there
        try:
            merged = three_way(bases, theirs, ours, "theirs" if whose == "theirs" else "ours")
        except Ambiguous as error:
            left_out[str(error)] += 1
            return None
        is_cut_off = self.is_cut_off([*bases, theirs, ours])
        since = [list(between(b, s)) for b in bases for s in (theirs, ours)]
        has_gap = is_cut_off or not all(
            self.are_there(nodes) and not any(node.is_untold for node in nodes) for nodes in since
        )
        case = Case(
            doing, bases, theirs, ours, whose, merged,
            bases_are_there=self.are_there(bases), has_gap=has_gap, is_cut_off=is_cut_off,
            source=source, is_named=named,
        )  # fmt: skip
        self.may_be_untold |= has_gap
        reasons = [name for name, holds in EXCLUDED.items() if holds(case)]
        left_out.update(reasons[:1])
        return None if reasons else case

    def put_together(self, line: Line, case: Case, work: Callable[[Any], Any]) -> Any:
        """Do what is refused, or makes what the model makes, in one commit."""
        ds = self.handle(lk, line)
        note(f"{line.name}: {case.doing}, conflicts={case.whose}")
        if case.refused:
            self.refused(line, case, lambda: work(ds))
            return None
        result = work(ds)
        compared[f"{case.doing.split()[0]} {result.how}"] += 1
        assert result.read_version == line.last
        self.merged(line, case.node, case, result)
        assert ds.version == line.last == result.version
        check_counts(result, case)
        check(ds, case.merged.table)
        return result

    def merged(self, line: Line, node: Node, case: Case, result: Any) -> None:
        """Note the version that a merge made."""
        node.is_untold = case.has_gap and columns_of(result) != case.columns
        self.landed(line, node, least=case.least)

    def refused(self, line: Line, case: Case, work: Callable[[], Any]) -> None:
        with pytest.raises((errors.MergeConflictError, errors.SchemaMismatchError)) as raised:
            work()
        compared[f"{case.doing.split()[0]} refused"] += 1
        if raised.type is errors.SchemaMismatchError:
            assert case.merged.column_clashes or case.has_gap
        else:
            check_conflicts(raised.value.context["conflicts"], case)
        self.unchanged(line)

    def bring(self, source: Line, target: Line, doing: str, whose: str, work: Any) -> None:
        """Merge or rebase, once: the second time there is nothing to do."""
        if source.newest.is_merged_into(target.newest):
            ds = self.handle(lk, target)
            note(f"{target.name}: {doing} of {source.name}, which is merged")
            plan = ds.branches.merge(source.branch, conflicts=whose, dry_run=True)
            assert (plan.how, work(ds).how) == ("nothing to do", "nothing to do")
            compared[f"{doing} nothing to do"] += 1
            self.unchanged(target)
            return
        bases = bases_of_merge(source.newest, target.newest)
        case = self.case(doing, bases, source.newest, target.newest, whose, source)
        if case is None:
            return
        if not case.bases_are_there:
            self.bring_without_base(source, target, case, work)
            return
        ds = self.handle(lk, target)
        plan = ds.branches.merge(source.branch, conflicts=whose, dry_run=True)
        self.unchanged(target)
        check_conflicts(plan.conflicts, case)
        result = self.put_together(target, case, work)
        if result is None:
            return
        assert (plan.how, counts_of(plan)) == (result.how, counts_of(result))
        assert columns_of(plan) == columns_of(result)
        work(ds)
        self.unchanged(target)

    def bring_without_base(self, source: Line, target: Line, case: Case, work: Any) -> None:
        """A base is gone: the merge is refused, unless another one is named.

        A version that took over the base as it was may stand in for it.  A base that is listed, and
        whose files pylance's cleanup removed, does where no row of it is read.
        """
        ds = self.handle(lk, target)
        note(f"{target.name}: {case.doing} of {source.name}, conflicts={case.whose}, base gone")
        broken = [node for line in self.lines.values() for node in line.broken.values()]
        has_broken = any(node is base for node in broken for base in case.bases)
        stand_in = has_broken or any(node.repeats for node in self.nodes())
        try:
            plan = ds.branches.merge(source.branch, conflicts=case.whose, dry_run=True)
        except errors.VersionNotFoundError:
            with pytest.raises(errors.VersionNotFoundError, match="base="):
                work(ds)
            compared[f"{case.doing} without its base"] += 1
        except errors.CorruptFileError:
            assert has_broken
            with pytest.raises(errors.CorruptFileError, match="which does not exist") as raised:
                work(ds)
            assert not Path(raised.value.context["file"]).exists()
            compared[f"{case.doing} without files of its base"] += 1
        else:
            assert stand_in
            check_conflicts(plan.conflicts, case)
        self.unchanged(target)
        named = next(self.named_bases(source, target), None)
        if named is None:
            return
        line, version = named
        bases = [line.nodes[version]]
        older = self.case(case.doing, bases, case.theirs, case.ours, case.whose, source, named=True)
        if older is not None:
            self.put_together(
                target, older,
                lambda ds: ds.branches.merge(
                    source.branch, conflicts=case.whose, base=(line.branch, version)
                ),
            )  # fmt: skip

    def named_bases(self, source: Line, target: Line) -> Iterator[tuple[Line, int]]:
        """Yield versions that both contain, and whose columns are the same by name on each side."""
        sides = source.newest, target.newest
        for line in self.branches:
            for version, node in line.nodes.items():
                tables = [node.table, *(side.table for side in sides)]
                if all(node in side.contains for side in sides) and have_same_names(tables):
                    yield line, version

    def draw_pair(self, data: Any) -> tuple[Line, Line] | None:
        """Return a branch that has something new for another, and the other."""
        pairs = [
            f"{one.name} into {other.name}"
            for one in self.branches
            for other in self.branches
            if one is not other and one.newest not in other.newest.contains
        ]
        if not pairs:
            return None
        one, other = data.draw(st.sampled_from(pairs), label="merge").split(" into ")
        return self.lines[one], self.lines[other]

    @precondition(lambda self: len(self.branches) > 1)
    @rule(whose=SETTLE, data=st.data())
    @or_untold
    def merge(self, whose: str, data: Any) -> None:
        pair = self.draw_pair(data)
        if pair is not None:
            self.bring(
                *pair, "merge", whose,
                lambda ds: ds.branches.merge(pair[0].branch, conflicts=whose),
            )  # fmt: skip

    @precondition(lambda self: len(self.branches) > 1)
    @rule(whose=SETTLE, data=st.data())
    @or_untold
    def rebase(self, whose: str, data: Any) -> None:
        names = [line.name for line in self.branches if line.parent]
        line = self.lines[data.draw(st.sampled_from(names), label="branch")]
        self.bring(
            self.lines[str(line.parent)], line, "rebase", whose,
            lambda ds: ds.branches.rebase(line.branch, conflicts=whose),
        )  # fmt: skip

    @precondition(lambda self: len(self.branches) > 1)
    @rule(whose=SETTLE, on_target=st.booleans(), data=st.data())
    @or_untold
    def merge_while_another_lands(self, whose: str, on_target: bool, data: Any) -> None:
        """A change lands after the branches were read, and before the merge writes anything."""
        pair = self.draw_pair(data)
        if pair is None:
            return
        source, target = pair
        moved = target if on_target else source
        found = self.draw_step(data, [*self.row_steps, *COLUMN_STEPS, steps.compact], moved)
        if found is None:
            return
        theirs, before, last = source.newest, target.newest, target.last
        if theirs.is_merged_into(before):
            return
        after = before.follow(found[1].change(before.table)) if on_target else before
        bases = bases_of_merge(theirs, before)
        cases = [self.case("merge", bases, theirs, ours, whose, source) for ours in (before, after)]
        if None in cases or cases[0].refused or not cases[0].bases_are_there:
            return
        note(f"{target.name}: merge of {source.name}, conflicts={whose}, while ...")
        result = self.merge_while(source, target, whose, lambda: self.take(moved, *found), cases[1])
        if result is None:
            return
        case = self.case("merge", bases, theirs, target.newest, whose, source)
        assert case is not None
        orders = [(case.node, case)]
        if target.last > last == result.read_version and (first := cases[0]) is not None:
            # planned before the change landed: it may count as the first of the two, and a delete
            # does not see what it inserts
            now, changed = first.merged.table, found[1].change(before.table)
            tables = found[1].change(now), side_by_side(before.table, now, changed)
            orders += [(replace(case.node, table=t), first) for t in tables if t is not None]
        ds = self.handle(lk, target)
        fit = (order for order in orders if fits(ds, result, *order))
        node, case = next(fit, orders[0])
        compared[f"raced {result.how}"] += 1
        self.merged(target, node, case, result)
        check_counts(result, case)

    def merge_while(
        self, source: Line, target: Line, whose: str, other: Callable[[], None], case: Case | None
    ) -> Any:
        """Let another writer in when the merge is about to write; `None` if it is refused then."""
        faults = Faults()

        def let_in(call: Call) -> None:
            if call.kind in ("put", "put_if_absent", "create", "adopt"):
                faults.before = None
                other()

        with injected(faults):
            ds = self.handle(lk, target)
            faults.before = let_in
            try:
                return ds.branches.merge(source.branch, conflicts=whose)
            except errors.CommitConflictError:
                assert faults.before is None
            except (errors.MergeConflictError, errors.SchemaMismatchError) as error:
                if "may or may not be column" in str(error):
                    raise
                assert case is not None
                assert case.refused
                if isinstance(error, errors.MergeConflictError):
                    check_conflicts(error.context["conflicts"], case)
        self.unchanged(target)
        return None

    @precondition(lambda self: len(self.branches) > 1)
    @rule(whose=SETTLE, data=st.data())
    @or_untold
    def merge_both_ways_at_once(self, whose: str, data: Any) -> None:
        """Each branch gets what the other was before: the next merge has two bases."""
        names = [line.name for line in self.branches]
        one, other = (self.lines[name] for name in data.draw(st.permutations(names))[:2])
        ends = one.newest, other.newest
        bases = bases_of_merge(*ends)
        case = self.case("merge", bases, *ends, whose, one)
        back = self.case("merge", bases_of_merge(*ends[::-1]), *ends[::-1], whose, other)
        merged = ends[0].is_merged_into(ends[1]) or ends[1].is_merged_into(ends[0])
        if merged or case is None or back is None or case.refused or back.refused:
            return
        if not case.bases_are_there:
            return
        note(f"{other.name}: merge of {one.name}, conflicts={whose}, while ...")
        result = self.merge_while(
            one, other, whose,
            lambda: self.put_together(
                one, back, lambda ds: ds.branches.merge(other.branch, conflicts=whose)
            ),
            case,
        )  # fmt: skip
        compared[f"both ways {result.how}"] += 1
        self.merged(other, case.node, case, result)

    @precondition(lambda self: len(self.branches) > 1)
    @rule(whose=SETTLE, data=st.data())
    @or_untold
    def cherry_pick(self, whose: str, data: Any) -> None:
        names = [line.name for line in self.branches]
        source, target = (self.lines[name] for name in data.draw(st.permutations(names))[:2])
        version = self.draw_version(data, source, after=1)
        if version is None:
            return
        ends = source.nodes[version - 1], source.nodes[version]
        doing = f"pick of {source.name}@{version}"
        case = self.case(doing, [ends[0]], ends[1], target.newest, whose)
        if case is not None:
            self.put_together(
                target, case,
                lambda ds: ds.branches.cherry_pick(source.branch, version, conflicts=whose),
            )  # fmt: skip

    @rule(whose=SETTLE, data=st.data())
    @or_untold
    def revert(self, whose: str, data: Any) -> None:
        line = self.draw_line(data)
        version = self.draw_version(data, line, after=1)
        if version is None:
            return
        ends = line.nodes[version], line.nodes[version - 1]
        case = self.case(f"revert of {version}", [ends[0]], ends[1], line.newest, whose)
        if case is not None:
            self.put_together(line, case, lambda ds: ds.revert(version, conflicts=whose))

    @rule(whose=SETTLE, data=st.data())
    @or_untold
    def apply(self, whose: str, data: Any) -> None:
        """What happened between two versions, one of which comes from the other, on a third."""
        old, new, target = (self.draw_line(data) for _ in range(3))
        first, last = self.draw_version(data, old), self.draw_version(data, new)
        assert first is not None
        assert last is not None
        ends = old.nodes[first], new.nodes[last]
        if ends[0] not in ends[1].contains and ends[1] not in ends[0].contains:
            return
        doing = f"apply of {old.name}@{first} to {new.name}@{last}"
        is_across = len({line.path for line in (old, new, target)}) > 1
        case = self.case(doing, [ends[0]], ends[1], target.newest, whose, is_across=is_across)
        if case is None:
            return
        handles = [
            side.checkout_version((line.branch, version))
            for line, version in ((old, first), (new, last))
            for side in [lk.dataset(line.path)]
        ]
        diff = lk.diff(*handles)
        before, after = ends[0].table.rows.keys(), ends[1].table.rows.keys()
        found = diff.counts.inserted, diff.counts.deleted
        wanted = len(after - before), len(before - after)
        if case.by_ids:
            # a row that came by a merge has another id, and may have been changed since
            found, wanted = ((inserted - deleted, 0) for inserted, deleted in (found, wanted))
        assert found == wanted
        self.put_together(target, case, lambda ds: diff.apply(ds, conflicts=whose))


def run_histories(
    number: int,
    histories: int,
    steps: int,
    phases: Sequence[Phase],
    machine: type[BranchMachine] = BranchMachine,
) -> None:
    """Run histories that a seed makes."""
    run = get_state_machine_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )
    try:
        seed(number)(run)()
    except Exception as error:
        error.add_note(f"seed {number}: LANCEKIT_TEST_SEED={number} begins with it")
        raise


@pytest.mark.torture
def test_any_order_of_branches_and_merges(whole: bool) -> None:
    first = int(os.environ.get("LANCEKIT_TEST_SEED", "0"))
    done.clear()
    with lk.options(fsync=False):
        if not whole:
            # a history of 25 steps takes minutes to shrink
            run_histories(first, 8, 25, (Phase.generate,))
            return
        last = first + 50
        for number in range(first, last):
            run_histories(number, 6, 40, tuple(Phase))
    print(f"seeds {first} to {last - 1}: {done['histories']} histories, {done['steps']} steps")
    assert done["steps"] >= 10_000
