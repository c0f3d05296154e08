"""docs/cost.md says what calls read and write."""

from pathlib import Path

import pytest

from tests.support.costs import TOPICS, cost_table

PAGE = (Path(__file__).parents[2] / "docs/cost.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("topic", TOPICS)
def test_the_page_says_what_calls_read_and_write(topic, tmp_path):
    said = PAGE.split(f"<!-- generated: {topic} -->\n")[1].split("<!-- end -->")[0].strip()
    assert cost_table(topic, str(tmp_path)) == said


def test_each_table_of_the_page_is_made_here():
    assert PAGE.count("<!-- generated: ") == len(TOPICS)
