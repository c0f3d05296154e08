"""Rules, and the calls that say the same."""

import itertools
from datetime import timedelta

import pytest

import lancekit as lk
from lancekit._notebook.workbench.rules import CHOICES, Rules, built, code_of, rules_of

EVIL = "a\u202e'b\"\n"


@pytest.fixture
def ds():
    return lk.write_dataset(
        {"id": [1, 2], "v": [1, 2], EVIL: ["x", "y"]}, "memory://rules", mode="overwrite"
    )


def test_every_choice_is_code_that_makes_the_same_builder(ds):
    options = [choice.options.values() for choice in CHOICES.values()]
    for matched, new, missing, dedupe in itertools.product(*options):
        rules = Rules(
            on=("id", EVIL),
            matched=matched,
            new=new,
            missing=missing,
            dedupe=dedupe,
            condition="source.v > 1" if matched == "update if" else "",
            expr="v > 1" if missing == "delete if" else "",
            largest=EVIL if dedupe == "largest" else "",
        )
        builder = built(ds.merge_insert("id"), rules)
        code = code_of(ds.merge_insert("id"), rules)
        assert code.isprintable() or "\n" in code
        assert "\u202e" not in code
        same = eval(code.replace(".execute(df)", ""), {"ds": ds})
        assert same._clauses == builder._clauses
        if matched != "leave" or new == "insert" or missing != "keep":
            assert rules_of(builder, rules.on) == rules


def test_a_merge_without_rules_begins_as_an_upsert(ds):
    assert rules_of(ds.merge_insert("id"), ("id",)) == Rules(on=("id",))
    deduped = ds.merge_insert("id", dedupe="last")
    assert rules_of(deduped, ("id",)).dedupe == "last"
    assert rules_of(ds.merge_insert("id", dedupe_by="v"), ("id",)).dedupe == "largest"


def test_what_was_said_besides_rules_stays(ds):
    builder = ds.merge_insert("id").write_mode("rewrite_columns").use_index(False)
    builder.conflict_retries(3).retry_timeout(timedelta(seconds=5)).data_storage_version("2.1")
    builder.target_all_bases(False)
    rules = rules_of(builder, ("id",))
    made = built(builder, rules)
    assert made is not builder
    code = code_of(builder, rules)
    import datetime

    same = eval(code.replace(".execute(df)", ""), {"ds": ds, "datetime": datetime})
    assert (same._clauses, same._policy) == (made._clauses, made._policy)
    assert builder._clauses.matched == "keep"


def test_a_rule_without_its_text_is_refused(ds):
    with pytest.raises(lk.errors.PredicateError, match="condition"):
        built(ds.merge_insert("id"), Rules(on=("id",), matched="update if"))
