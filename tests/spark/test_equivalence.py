"""The same histories on Spark as in this process, in the reference and in a plain model.

Run over a classic session and over Spark Connect alike: nothing here knows which it is.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from tests.support.equivalence import Way
from tests.system.test_equivalence import LOCAL, MERGE_NAMES, OTHERS, PYLANCE, history, repeat

pytestmark = pytest.mark.spark

ON_SPARK = {"engine": "spark", "fsync": False}
#: how a merge finds its keys
MATCHES = ("auto", "driver", "closure", "file", "shuffle")


def frame(spark, data):
    schema = from_arrow_schema(data.schema, prefer_timestamp_ntz=True)
    # PySpark takes no Arrow table without rows
    return spark.createDataFrame(data if data.num_rows else [], schema)


def ways(spark, match):
    """Return the ways on Spark: rows of Arrow, and of a DataFrame."""
    options = ON_SPARK | {"merge_match": match}
    return [
        Way("spark", options=options),
        Way("frame", options=options, rows=partial(frame, spark), ordered=False),
    ]


@pytest.mark.torture
def test_a_tour_of_all_operations(spark, whole):
    """Every operation once, some merges in between, and another way of matching each time."""

    def tour(data, match):
        order = data.draw(st.permutations(OTHERS))
        chosen = random.Random(str(order))
        names = order + chosen.sample(sorted(MERGE_NAMES), 25 if whole else 4)
        chosen.shuffle(names)
        there = ways(spark, match) if whole else [chosen.choice(ways(spark, match))]
        history(data, [LOCAL, *there], [[name] for name in names])

    repeat(25 if whole else 1, given(st.data(), st.sampled_from(MATCHES))(tour))


@pytest.mark.torture
def test_sequences(spark, whole):
    """Random histories; the reference takes part."""
    kind = st.sampled_from([OTHERS, sorted(MERGE_NAMES)])
    kinds = st.lists(kind, min_size=5, max_size=15 if whole else 6)

    def sequence(data, names, match):
        history(data, [LOCAL, PYLANCE, *ways(spark, match)], names)

    repeat(60 if whole else 2, given(st.data(), kinds, st.sampled_from(MATCHES))(sequence))
