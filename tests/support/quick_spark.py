"""What makes a session of tests quick, and the program from which its Python workers are forked.

A worker ends with a task that fails, and the next one takes a second to load all that it needs:
these are forked from a process that has loaded it.
"""

from __future__ import annotations

import gc

__all__ = ["INTERPRETED", "SETTINGS"]

#: to compile Java for each query takes longer than to interpret it over some hundred rows
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SETTINGS = {**INTERPRETED, "spark.python.daemon.module": "tests.support.quick_spark"}

if __name__ == "__main__":
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import lancekit._spark.jobs.worker  # noqa: F401
    from tests.support.forked import LOADED

    assert LOADED

    gc.freeze()
    manager()
