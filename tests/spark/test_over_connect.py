"""Spark tests once more over Spark Connect: a process has one kind of session.

Every operation is among them; at full length (``--whole``) they are all that can run there.
"""

from __future__ import annotations

import pytest

from tests.spark.programs import run_spark_tests

pytestmark = [pytest.mark.classic, pytest.mark.over_connect, pytest.mark.torture]

FOLDER = "tests/spark"

CHOSEN = {
    "test_datasource.py": ["test_rows", "test_trust_is_an_option"],
    "test_datasource_writes.py": ["test_it_creates_appends_and_overwrites"],
    "test_equivalence.py": ["test_a_tour_of_all_operations"],
    "test_frame.py": [
        "test_a_column_of_sparks_filters_after_the_scan",
        "test_hidden_columns",
        "test_sql_over_a_view",
    ],
    "test_merge.py": ["test_frames_of_sparks_own"],
    "test_merge_strategies.py": ["test_nothing_is_kept_after_an_error"],
    "test_nested.py": ["test_arrays_structs_and_maps_both_ways"],
    "test_places.py": ["test_credentials_are_in_no_plan_log_or_error"],
    "test_progress.py": [],
    "test_runner.py": [
        "test_an_action_of_a_frame_ends_with_our_error_and_shows_nothing_of_our_inside",
        "test_an_error_of_our_own_keeps_its_facts",
        "test_the_options_in_force_reach_the_workers",
    ],
    "test_sink.py": ["test_a_merge", "test_writers_race_for_versions"],
    "test_sql.py": ["test_two_versions_and_other_names"],
    "test_streaming.py": ["test_a_table_copied_at_once"],
    "test_told_of_writes.py": [],
    "test_types.py": ["test_through_spark"],
    "test_write.py": ["test_append_and_overwrite"],
}
"""Names of tests, by their file; all of a file if there are none."""


def test_the_spark_tests_over_connect(connect_server: str, whole: bool) -> None:
    some = [
        "::".join([f"{FOLDER}/{file}", *name])
        for file, names in CHOSEN.items()
        for name in ([[name] for name in names] or [[]])
    ]
    place = "connect" if whole else connect_server
    said = run_spark_tests([FOLDER] if whole else some, place, whole=whole)
    assert " skipped" not in said
