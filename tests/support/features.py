"""What notebook users get, feature by feature: makes docs/features.md.

``python -m tests.support.features`` writes the page anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FEATURES", "Feature", "page"]

_PAGE = Path(__file__).parents[2] / "docs/features.md"


@dataclass(frozen=True)
class Feature:
    """A row: what it is called, what there is, the tests that show it, and where it is seen."""

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
        "HTML for the main object",
        "a dataset, and every other public object, is a card at the end of a cell",
        (f"{_CARDS}::test_every_displayed_class_has_a_card", f"{_CARDS}::test_dataset"),
        "gallery.md#a-dataset",
    ),
    Feature(
        "Text with the same facts",
        "`repr` is complete by itself: terminals, logs, screen readers",
        (f"{_HTML}::test_text_and_html_say_the_same",),
        "gallery.md#the-history",
    ),
    Feature(
        "Display never runs a scan",
        "metadata alone, two reads at most for a handle that is held",
        (
            f"{_READS}::test_no_card_reads_a_data_file",
            f"{_READS}::test_a_large_manifest_costs_at_most_two_reads",
        ),
        "cost.md#inspect-a-dataset",
    ),
    Feature(
        "Dark themes",
        "the colours of JupyterLab, VS Code or the page; contrast of 4.5 and more in both",
        (f"{_HTML}::test_contrast", f"{_BROWSER}::test_axe_finds_no_fault_in_any_card"),
        "gallery.md",
    ),
    Feature(
        "Output is bounded, and says n of N",
        "50 kB at most, whatever the names; totals come from the manifest",
        (
            f"{_HTML}::test_no_output_is_too_large",
            "tests/notebook/render/test_controls.py::test_a_page_says_which_rows_of_how_many_it_has",
        ),
        "gallery.md#a-result",
    ),
    Feature(
        "Saved notebooks stay readable",
        "no script, no identifiers, the same bytes again; widgets leave a card behind",
        (
            f"{_HTML}::test_the_same_input_gives_the_same_bytes",
            "tests/notebook/render/test_controls.py::test_a_widget_has_its_twin_beside_it",
            f"{_BROWSER}::test_cards_are_readable_where_styles_are_taken_away",
            "tests/browser/test_saved.py",
            "tests/browser/test_lab.py::test_a_widget_that_is_gone_leaves_its_card",
        ),
        "gallery.md#a-merge-before-it-is-done",
    ),
    Feature(
        "Accessible markup",
        "captions, scopes, alternative texts, keys; axe finds nothing",
        (
            f"{_HTML}::test_markup_is_accessible",
            f"{_BROWSER}::test_axe_finds_no_fault_in_any_card",
            f"{_BROWSER}::test_what_is_folded_is_opened_by_keys",
        ),
        "gallery.md",
    ),
    Feature(
        "History with operation, counts, message",
        "`ds.versions()`, newest first, page by page",
        (f"{_CARDS}::test_history", f"{_READS}::test_a_page_of_history_costs_a_page_of_manifests"),
        "gallery.md#the-history",
    ),
    Feature(
        "History says what can still be read",
        "the oldest version that is left; what was cleaned up is named as such",
        (
            f"{_CARDS}::test_a_version_whose_forerunner_is_gone",
            "tests/api/test_time_travel.py"
            "::test_a_time_at_which_a_version_was_the_newest_that_is_gone",
        ),
        "gallery.md#the-history",
    ),
    Feature(
        "Rows that differ between two versions",
        "`ds.diff`: inserted, deleted, updated, cell by cell, read lazily",
        ("tests/operations/lineage/test_diff.py", "tests/api/test_changes.py"),
        "gallery.md#a-difference",
    ),
    Feature(
        "Schemas that differ",
        "only the difference, with the cast that would help",
        ("tests/api/test_column_history.py", "tests/pipeline/test_casts.py"),
        "gallery.md#what-became-of-a-column",
    ),
    Feature(
        "Counts of a merge, afterwards",
        "inserted, updated, deleted, attempts, bytes, the line that undoes it",
        (f"{_CARDS}::test_merge_result", f"{_CARDS}::test_the_undo_line_works"),
        "gallery.md#a-merge-done",
    ),
    Feature(
        "A merge, looked at before",
        "`preview`: counts and changed cells, nothing written; by clicks, `interactive`",
        (
            "tests/operations/test_merge_plan.py",
            "tests/notebook/test_magics.py::test_a_preview_changes_nothing",
        ),
        "gallery.md#a-merge-by-clicks",
    ),
    Feature(
        "Duplicate keys named",
        "which keys, on which side, how often, and what to do",
        (
            "tests/operations/test_merge_plan.py::test_duplicates",
            "tests/spark/test_merge.py::test_duplicate_keys",
        ),
        "merge.md#remove-duplicate-keys-from-the-source",
    ),
    Feature(
        "Why this much is read",
        "`explain` of every operation, scan and filter; the index that would have helped",
        ("tests/operations/test_explain.py", "tests/operations/test_advice.py"),
        "gallery.md#what-a-call-would-do",
    ),
    Feature(
        "A conflict says who, what, where, what next",
        "both operations, the winner, rows or keys at fault and how sure that is",
        (f"{_CARDS}::test_a_conflict_says_where", "tests/commit/test_conflicts.py"),
        "gallery.md#a-conflict",
    ),
    Feature(
        "Retries can be seen",
        "attempts on the result; who was in the way, where none succeeded",
        (
            f"{_CARDS}::test_the_last_conflict_shows_when_all_attempts_met_one",
            "tests/commit/test_commit_protocol.py",
        ),
        "gallery.md#a-merge-done",
    ),
    Feature(
        "Branches and tags",
        "as in pylance, with merges of branches",
        (f"{_CARDS}::test_tags_and_branches", "tests/operations/lineage/test_branch_merge.py"),
        "gallery.md#branches_1",
    ),
    Feature(
        "The graph of branches, in the cell",
        "`ds.plot.graph()`: SVG, text and Mermaid",
        ("tests/notebook/pictures/test_graph.py",),
        "gallery.md#the-graph-of-branches",
    ),
    Feature(
        "Branches compared and brought home",
        "`compare`, `merge`, `rebase`, `cherry_pick`; conflicts settled by row and column",
        (f"{_CARDS}::test_changes_of_two_sides", "tests/operations/lineage/test_branch_merge.py"),
        "gallery.md#a-merge-of-branches-before-it-is-done",
    ),
    Feature(
        "Time travel by a moment",
        "`asof=` and `at`; a time without a zone is local and warns",
        (
            "tests/api/test_time_travel.py",
            "tests/test_errors.py::test_a_naive_time_is_local_and_warns",
        ),
        "how-to.md#time",
    ),
    Feature(
        "Walking through versions",
        "`ds.explore()`: by slider and keys, side by side, with a card that stays",
        (
            "tests/notebook/explorer/test_state.py",
            "tests/notebook/explorer/test_shell.py",
            "tests/browser/test_lab.py",
        ),
        "gallery.md#the-explorer",
    ),
    Feature(
        "Cleanup and restore, looked at before",
        "what would go, and what protects the rest",
        ("tests/operations/test_cleanup.py", "tests/operations/test_restore.py"),
        "gallery.md#a-cleanup-before-it-is-done",
    ),
    Feature(
        "What a clone depends on",
        "where its files are, whether they are there, and `deepen`",
        (
            f"{_CARDS}::test_a_branch_and_a_clone_say_where_their_files_are",
            "tests/operations/test_sources.py",
            "tests/operations/test_deepen.py",
        ),
        "gallery.md#a-clone",
    ),
    Feature(
        "Progress in the cell, and a stop that works",
        "bars after a second; an interrupt says what was committed, and stops Spark's jobs",
        ("tests/test_progress.py", "tests/test_interrupts.py", "tests/spark/test_failing_tasks.py"),
        "safety.md#interrupt-a-cell",
    ),
    Feature(
        "The session, and what it lacks",
        "Spark, Java, memory, settings that differ; no Java is one sentence",
        (f"{_CARDS}::test_session", "tests/spark/test_java.py"),
        "gallery.md#the-spark-session",
    ),
    Feature(
        "Magics",
        "`%%lance` and `%lance`, thin over the API",
        ("tests/notebook/test_magics.py",),
        "sql.md",
    ),
    Feature(
        "Short errors, whole ones when asked for",
        "what, where in your cell, what next: twelve lines at most; `%lance tb`",
        (
            "tests/notebook/test_failures.py::test_never_more_than_twelve_lines",
            "tests/notebook/test_failures.py::test_it_is_the_error_of_a_script",
        ),
        "how-to.md#errors",
    ),
    Feature(
        "Code to copy",
        "cards end with the line that leads back; widgets show each state as code",
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
        "# What a notebook user gets",
        "",
        "Feature by feature, with the tests that show it and where to look at it.",
        "",
        "| | in lancekit | shown by | seen |",
        "|-|-|-|-|",
    ]
    for one in FEATURES:
        tests = ", ".join(f"[`{test}`](../{test.partition('::')[0]})" for test in one.tests)
        lines.append(f"| {one.name} | {one.how} | {tests} | [here]({one.seen}) |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    _PAGE.write_text(page(), encoding="utf-8")
