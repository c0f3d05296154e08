"""Names of the files of shards."""

from __future__ import annotations

from pathlib import Path

from lancekit._format.mem_wal import names
from tests.support.shards import SHARD, newest, rows, with_shards


def test_names_are_those_of_the_reference(tmp_path: Path) -> None:
    with with_shards(tmp_path).mem_wal_writer(SHARD) as writer:
        writer.put(rows(4))
        writer.put(rows(5))
    shard = tmp_path / names.LOGS / SHARD
    there = {str(path.relative_to(shard)) for path in shard.rglob("*") if path.is_file()}
    expected = {names.entry_name(1), names.entry_name(2), names.MANIFEST_HINT}
    expected |= {names.manifest_name(number) for number in (1, 2)}
    folder = newest(tmp_path).sstables[0].path
    assert {name for name in there if not name.startswith(folder)} == expected
    assert names.generation_number(folder) == 1


def test_what_is_called_otherwise_has_no_number() -> None:
    name = names.manifest_name((1 << 64) - 2)
    assert names.position(name) == (1 << 64) - 2
    others = [f"{name}.tmp.0a", f"{name}#1", name[:20], "wal/.tmp-0a.arrow", "", f"1{name[9:]}"]
    assert [names.position(other) for other in others] == [0] * len(others)
    folders = ["0a1b2c3d_gen_", "0a1b2c3d_gen_x", "0a_gen_1", "manifest", "0a1b2c3d_gen_1.tmp"]
    assert [names.generation_number(folder) for folder in folders] == [0] * len(folders)
    assert names.generation_number(names.generation_folder(12)) == 12
