"""Jobs for a release of the reference implementation; run by its own interpreter.

Reads one job a line and answers each with a line.  Nothing else is imported: what runs here must
run under Python packages as old as the release.
"""

import json
import os
import sys
import time

import lance
import pyarrow as pa


def write(tables, uri, version, rows_per_file):
    """Write a dataset, one fragment after the other."""
    mode = "create"
    for path in tables:
        table = pa.ipc.open_file(path).read_all()
        for start in range(0, len(table), rows_per_file):
            rows = range(start, min(start + rows_per_file, len(table)))
            # a copy: releases stumble over slices, and over what lies badly aligned in a file
            part = table.take(pa.array(rows))
            lance.write_dataset(part, uri, mode=mode, data_storage_version=version)
            mode = "append"


def read(uri, out, columns=None):
    """Read a dataset whole into an Arrow stream: columns may have several dictionaries."""
    table = lance.dataset(uri).to_table(columns=columns)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)


def program(source, arguments):
    """Run a program, which sets ``result``."""
    names = {"lance": lance, "pa": pa, "arguments": arguments, "os": os, "time": time}
    exec(source, names)
    return names.get("result")


JOBS = {job.__name__: job for job in (write, read, program)}


def main():
    # what the release prints must not be taken for an answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = {"result": JOBS[job.pop("job")](**job)}
        except BaseException as error:  # panics are no ordinary exceptions
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
