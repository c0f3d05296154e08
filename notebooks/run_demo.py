"""Run the notebooks in a folder of their own, and say what they did and where to look.

``--save`` also puts the outputs into the notebooks themselves, as they are published.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

import lancekit as lk

NOTEBOOKS = sorted(Path(__file__).parent.glob("0*.ipynb"))
CELL_SECONDS = 300


def execute(path: Path, folder: Path, *, talk: bool = False) -> NotebookNode:
    """Run a notebook from top to bottom.

    Parameters
    ----------
    path
        The notebook.
    folder
        The working folder, where the notebook's datasets will be.
    talk
        Whether to print each heading when its cells begin.
    """
    notebook = nbformat.read(path, as_version=4)
    headings = {}
    heading = ""
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            heading = cell.source.partition("\n")[0].lstrip("# ")
        elif cell.cell_type == "code" and heading:
            headings[place], heading = heading, ""

    def announce(cell_index: int, **_: object) -> None:
        if talk and cell_index in headings:
            print(f"  {headings[cell_index]} ...", flush=True)

    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        on_cell_execute=announce,
        record_timing=False,
        # the kernel's own warnings are about its sockets, not about the notebook
        extra_arguments=["--log-level=ERROR"],
    )
    done = client.execute()
    for cell in done.cells:
        if cell.cell_type == "code":
            # a progress bar has vanished by now, and comes or not with the speed of the machine
            cell.outputs = [
                o for o in cell.outputs if o.get("metadata", {}).get("lancekit") is None
            ]
    return done


def summary(folder: Path) -> str:
    """Return what the notebooks left in ``folder``."""
    ds = lk.dataset(folder / "flights.lance")
    branches = {name: ds.checkout_version((name, None)) for name in ds.branches.names()}
    tags = [f"{name} (version {tag['version']})" for name, tag in ds.tags.list().items()]
    shared = lk.dataset(folder / "shared.lance")
    airport, board = (lk.dataset(folder / name) for name in ("airport.lance", "board.lance"))
    year = lk.dataset(folder / "year.lance")
    nested, old = (_megabytes(folder / name) for name in ("nested.lance", "old.lance"))
    lines = [
        ("dataset", f"{len(ds.versions())} versions, {ds.count_rows():,} rows at the newest"),
        ("tags", ", ".join(tags)),
        *(
            (f"branch {name}", f"{len(b.versions())} versions, {b.count_rows():,} rows")
            for name, b in branches.items()
        ),
        ("clone", f"{lk.dataset(folder / 'mine.lance').count_rows():,} rows of its own version"),
        ("shared", f"{shared.version} versions by several writers, {shared.count_rows():,} rows"),
        (
            "airport",
            f"{airport.version} versions, {airport.count_rows():,} rows; "
            f"{board.count_rows():,} changes of them on the board",
        ),
        (
            "year",
            f"{year.version} versions, {year.count_rows():,} rows, "
            f"{len(year.constraints.list())} constraints; "
            f"branch {', '.join(year.branches.names())} merged",
        ),
        (
            "indices",
            ", ".join(
                f"{one.name} ({one.index_type})"
                for name in ("trips.lance", "airports.lance", "weather.lance")
                for one in lk.dataset(folder / name).describe_indices()
            ),
        ),
        ("sensors", _small_writes(lk.dataset(folder / "sensors.lance"))),
        ("nested", f"{nested} in the newest format, {old} in the oldest"),
    ]
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"  {label:<{width}}  {said}" for label, said in lines)


def _small_writes(ds: lk.LanceDataset) -> str:
    shards = ds.mem_wal_shards()
    brought = sum(shard.merged_generation for shard in shards)
    return (
        f"{ds.count_rows():,} rows by key, which {len(shards)} shards brought in "
        f"{brought} generations"
    )


def _megabytes(uri: Path) -> str:
    files = [file for part in lk.dataset(uri).get_fragments() for file in part.data_files()]
    return f"{sum(file.size_bytes or 0 for file in files) / 1e6:.1f} MB"


def report(folder: Path) -> str:
    """Return what the notebooks did, and where to look."""
    outputs = "".join(f"  {folder / path.name}  with its outputs\n" for path in NOTEBOOKS)
    return (
        f"They made, and read back:\n{summary(folder)}\n\n"
        f"Where to look:\n{outputs}"
        f"  {folder / 'flights.lance'}  the dataset\n"
        "  make lab  opens the notebooks in JupyterLab"
    )


def main() -> None:
    """Run, report, and keep everything for a look."""
    folder = Path(tempfile.mkdtemp(prefix="lancekit-demo-"))
    for path in NOTEBOOKS:
        print(f"Running {path.name}:")
        notebook = execute(path, folder, talk=True)
        nbformat.write(notebook, folder / path.name)
        if "--save" in sys.argv[1:]:
            nbformat.write(notebook, path)
    print(f"\n{report(folder)}")


if __name__ == "__main__":
    main()
