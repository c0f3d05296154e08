"""The features for notebook users, one by one: makes docs/features.md.

``python -m tests.support.features`` rewrites the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FEATURES", "Feature", "page"]

_PAGE = Path(__file__).parents[2] / "docs/features.md"


@dataclass(frozen=True)
class Feature:
    """A row of the page: name, description, the tests that show it, and the link to an example."""

    name: str
    how: str
    tests: tuple[str, ...]
    seen: str


_CARDS, _HTML, _READS = (
    f"tests/notebook/{name}.py" for name in ("test_cards", "render/test_html", "test_reads")
)
_BROWSER = "tests/browser/test_cards.py"

FEATURES = (
    Feature(
        "Cards",
        "a dataset or another public object at the end of a cell shows a card",
        (f"{_CARDS}::test_every_displayed_class_has_a_card", f"{_CARDS}::test_dataset"),
        "gallery.md#a-dataset",
    ),
    Feature(
        "Cards as text",
        "`repr` has the same facts, for terminals, logs and screen readers",
        (f"{_HTML}::test_text_and_html_say_the_same",),
        "gallery.md#the-history",
    ),
    Feature(
        "Cards read little",
        "a card reads only metadata, with at most two reads for an open handle; only diffs and "
        "conflicts read rows, at most 256 MiB in a second",
        (
            f"{_READS}::test_no_card_reads_a_data_file_but_those_of_changed_rows",
            f"{_READS}::test_a_large_manifest_costs_at_most_two_reads",
        ),
        "cost.md#inspect-a-dataset",
    ),
    Feature(
        "Light and dark themes",
        "cards use the colours of JupyterLab, VS Code or the page, and the theme of marimo, "
        "with a contrast of at least 4.5",
        (f"{_HTML}::test_contrast", f"{_BROWSER}::test_axe_finds_no_fault_in_any_card"),
        "gallery.md",
    ),
    Feature(
        "Bounded output",
        "a card has at most 50 kB and shows n of N rows, with totals from the manifest",
        (
            f"{_HTML}::test_no_output_is_too_large",
            "tests/notebook/render/test_controls.py::test_a_page_says_which_rows_of_how_many_it_has",
        ),
        "gallery.md#an-sql-result",
    ),
    Feature(
        "Saved notebooks",
        "cards need no script, widgets leave a card, and a second run saves the same bytes",
        (
            f"{_HTML}::test_the_same_input_gives_the_same_bytes",
            "tests/notebook/render/test_controls.py::test_a_widget_has_its_twin_beside_it",
            f"{_BROWSER}::test_cards_are_readable_where_styles_are_taken_away",
            "tests/browser/test_saved.py",
            "tests/browser/test_lab.py::test_a_widget_that_is_gone_leaves_its_card",
        ),
        "gallery.md#a-merge-plan",
    ),
    Feature(
        "Accessibility",
        "captions, scopes, alternative texts and keyboard use, without a fault in axe",
        (
            f"{_HTML}::test_markup_is_accessible",
            f"{_BROWSER}::test_axe_finds_no_fault_in_any_card",
            f"{_BROWSER}::test_all_of_each_card_is_read_by_keys_alone",
        ),
        "gallery.md",
    ),
    Feature(
        "History of versions",
        "`ds.versions()` shows operations, rows and messages, newest first, page by page",
        (f"{_CARDS}::test_history", f"{_READS}::test_a_page_of_history_costs_a_page_of_manifests"),
        "gallery.md#the-history",
    ),
    Feature(
        "Gaps in the history",
        "the card shows the oldest readable version and marks cleaned-up versions",
        (
            f"{_CARDS}::test_a_version_whose_forerunner_is_gone",
            "tests/api/test_time_travel.py"
            "::test_a_time_at_which_a_version_was_the_newest_that_is_gone",
        ),
        "gallery.md#the-history",
    ),
    Feature(
        "Difference of two versions",
        "`ds.diff` shows inserted, deleted and updated rows, cell by cell, and reads on demand",
        ("tests/operations/lineage/test_diff.py", "tests/api/test_changes.py"),
        "gallery.md#a-diff",
    ),
    Feature(
        "Difference of two schemas",
        "errors show only the difference, and the cast that resolves it",
        ("tests/api/test_column_history.py", "tests/pipeline/test_casts.py"),
        "gallery.md#a-column-history",
    ),
    Feature(
        "Result of a merge",
        "inserted, updated and deleted rows, attempts, bytes, and the call that undoes the merge",
        (f"{_CARDS}::test_merge_result", f"{_CARDS}::test_the_undo_line_works"),
        "gallery.md#a-merge-result",
    ),
    Feature(
        "Preview of a merge",
        "`preview` shows counts and changed cells without a write, `interactive` is its widget",
        (
            "tests/operations/test_merge_plan.py",
            "tests/notebook/test_magics.py::test_a_preview_changes_nothing",
        ),
        "gallery.md#a-merge-by-clicks",
    ),
    Feature(
        "Duplicate keys",
        "the error shows the keys, the side, the number of rows, and the remedy",
        (
            "tests/operations/test_merge_plan.py::test_duplicates",
            "tests/spark/test_merge.py::test_duplicate_keys",
        ),
        "merge.md#remove-duplicate-keys-from-the-source",
    ),
    Feature(
        "Plans of calls",
        "`explain` shows the plan of every operation and scan, and suggests an index",
        ("tests/operations/test_explain.py", "tests/operations/test_advice.py"),
        "gallery.md#an-explanation",
    ),
    Feature(
        "Conflicts between writers",
        "the error shows both operations, the winner, the rows or keys, and the next step",
        (f"{_CARDS}::test_a_conflict_says_where", "tests/commit/test_conflicts.py"),
        "gallery.md#a-conflict",
    ),
    Feature(
        "Retries",
        "the result has the number of attempts, the error has the last conflict",
        (
            f"{_CARDS}::test_the_last_conflict_shows_when_all_attempts_met_one",
            "tests/commit/test_commit_protocol.py",
        ),
        "gallery.md#a-merge-result",
    ),
    Feature(
        "Branches and tags",
        "as in pylance, plus merges of branches",
        (f"{_CARDS}::test_tags_and_branches", "tests/operations/lineage/test_branch_merge.py"),
        "gallery.md#branches_1",
    ),
    Feature(
        "Graph of branches",
        "`ds.plot.graph()` draws the branches as SVG, text or Mermaid",
        ("tests/notebook/pictures/test_graph.py",),
        "gallery.md#graph-of-branches",
    ),
    Feature(
        "Merges of branches",
        "`compare`, `merge`, `rebase` and `cherry_pick`, with conflicts resolved by row and column",
        (f"{_CARDS}::test_changes_of_two_sides", "tests/operations/lineage/test_branch_merge.py"),
        "gallery.md#a-branch-merge-plan",
    ),
    Feature(
        "Time travel",
        "`asof=` and `at` open a version by time. A time without a zone is local, with a warning",
        (
            "tests/api/test_time_travel.py",
            "tests/test_errors.py::test_a_naive_time_is_local_and_warns",
        ),
        "how-to.md#time",
    ),
    Feature(
        "Explorer of versions",
        "`ds.explore()` steps by slider or keys and compares versions. Saved notebooks have a card",
        (
            "tests/notebook/explorer/test_state.py",
            "tests/notebook/explorer/test_shell.py",
            "tests/browser/test_lab.py",
        ),
        "gallery.md#the-explorer",
    ),
    Feature(
        "Preview of cleanup and restore",
        "the plan shows the files to delete, and why others stay",
        ("tests/operations/test_cleanup.py", "tests/operations/test_restore.py"),
        "gallery.md#a-cleanup-plan",
    ),
    Feature(
        "Files of clones",
        "the card shows the location of files, `validate` checks them, and `deepen` copies them",
        (
            f"{_CARDS}::test_a_branch_and_a_clone_say_where_their_files_are",
            "tests/operations/test_sources.py",
            "tests/operations/test_deepen.py",
        ),
        "gallery.md#a-clone",
    ),
    Feature(
        "Progress and interrupts",
        "a bar after one second. An interrupt stops Spark's jobs and reports the commits",
        ("tests/test_progress.py", "tests/test_interrupts.py", "tests/spark/test_failing_tasks.py"),
        "safety.md#interrupt-a-cell",
    ),
    Feature(
        "Spark session",
        "a card with Spark, Java, memory and changed settings, or one sentence if Java is missing",
        (f"{_CARDS}::test_session", "tests/spark/test_java.py"),
        "gallery.md#the-spark-session",
    ),
    Feature(
        "Magics",
        "`%%lance` runs SQL, and `%lance` shows tables, histories and errors",
        ("tests/notebook/test_magics.py", "tests/notebook/test_at_import.py"),
        "sql.md",
    ),
    Feature(
        "Arrow tables",
        "IPython shows the first rows of a `pyarrow.Table`, with the number of all rows",
        ("tests/notebook/test_tables.py",),
        "cells.md",
    ),
    Feature(
        "Short errors",
        "at most 12 lines with problem, line of your cell and next step. `%lance tb` has the rest",
        (
            "tests/notebook/test_failures.py::test_never_more_than_twelve_lines",
            "tests/notebook/test_failures.py::test_it_is_the_error_of_a_script",
        ),
        "how-to.md#errors",
    ),
    Feature(
        "Code to copy",
        "cards end with the call that opens this version, widgets show each state as code",
        (
            f"{_CARDS}::test_the_reproduce_line_works",
            f"{_CARDS}::test_the_reproduce_line_finds_any_place_from_anywhere",
        ),
        "gallery.md#a-dataset",
    ),
)


def page() -> str:
    """Return the page."""
    lines = [
        "# Notebook features",
        "",
        "This page lists the features for notebooks, each with its tests and a link to an example.",
        "",
        "| Feature | In lancekit | Tests | Example |",
        "|-|-|-|-|",
    ]
    for one in FEATURES:
        tests = ", ".join(f"[`{test}`](../{test.partition('::')[0]})" for test in one.tests)
        lines.append(f"| {one.name} | {one.how} | {tests} | [example]({one.seen}) |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    _PAGE.write_text(page(), encoding="utf-8")
