"""Sizes as Spark's settings and options have them."""

from __future__ import annotations

import pytest

from lancekit._spark.jobs.shipment import spark_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10485760", 10 << 20),
        ("10485760b", 10 << 20),
        ("10MB", 10 << 20),
        (" 10m ", 10 << 20),
        ("10mib", 10 << 20),
        ("1k", 1 << 10),
        ("3g", 3 << 30),
        ("2t", 2 << 40),
        ("1P", 1 << 50),
        ("0", 0),
        ("-1", -1),
        ("1.5g", None),
        ("much", None),
        ("10 m", None),
        ("", None),
    ],
)
def test_sizes(text, size) -> None:
    assert spark_bytes(text) == size


def test_a_bare_number_has_the_unit_of_its_setting() -> None:
    assert spark_bytes("512", bare="m") == 512 << 20
    assert spark_bytes("512k", bare="m") == 512 << 10
