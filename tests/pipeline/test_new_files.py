"""The files of a job are known by their names."""

from __future__ import annotations

import re
import uuid

from lancekit._pipeline.write_rows import (
    WriteTarget,
    begin_job,
    new_data_file,
    new_job,
    remove_job_files,
)
from lancekit._storage.places import open_store


def test_names_end_with_the_digits_of_the_job() -> None:
    job = new_job()
    before = new_data_file()
    begin_job(job)
    try:
        names = {new_data_file() for _ in range(100)}
    finally:
        begin_job("")
    assert len(names) == 100
    assert all(re.fullmatch(rf"[01]{{24}}[0-9a-f]{{10}}{job}\.lance", name) for name in names)
    assert re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", before)


def test_only_files_of_the_job_are_removed() -> None:
    job, store = new_job(), open_store(f"memory://{uuid.uuid4()}")
    others = ["data/b.lance", f"data/c{job}x.lance"]
    for name in (f"data/a{job}.lance", f"data/a{job}/0.blob", *others):
        store.put(name, b"x")
    remove_job_files(job, [WriteTarget(store)])
    assert sorted(info.name for info in store.list_tree("data")) == others
