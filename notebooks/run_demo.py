"""Run the notebooks that show what lancekit is for, and say what they did and where to look.

``--save`` runs all of them, and puts the outputs into the notebooks themselves, as they are
published.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

import lancekit as lk

NOTEBOOKS = sorted(Path(__file__).parent.glob("[0-9]*.ipynb"))
#: versions, branches, merges and Spark; many writers; which load broke the table
DEMO = [path for path in NOTEBOOKS if path.name[:2] in {"01", "03", "05"}]
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


def write_page(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook beside it as a page, which any browser opens without JupyterLab."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter().from_notebook_node(
        notebook, resources={"metadata": {"name": path.stem}}
    )
    path.with_suffix(".html").write_text(body, encoding="utf-8")


def _quickstart(folder: Path) -> Iterator[tuple[str, str]]:
    ds = lk.dataset(folder / "flights.lance")
    tags = [f"{name} (version {tag['version']})" for name, tag in ds.tags.list().items()]
    yield "dataset", f"{len(ds.versions())} versions, {ds.count_rows():,} rows at the newest"
    yield "tags", ", ".join(tags)
    for name in ds.branches.names():
        branch = ds.checkout_version((name, None))
        yield f"branch {name}", f"{len(branch.versions())} versions, {branch.count_rows():,} rows"
    yield "clone", f"{lk.dataset(folder / 'mine.lance').count_rows():,} rows of its own version"


def _data_files(folder: Path) -> Iterator[tuple[str, str]]:
    nested, old = (_megabytes(folder / name) for name in ("nested.lance", "old.lance"))
    yield "nested", f"{nested} in the newest format, {old} in the oldest"


def _writers(folder: Path) -> Iterator[tuple[str, str]]:
    ds = lk.dataset(folder / "shared.lance")
    yield "shared", f"{ds.version} versions by several writers, {ds.count_rows():,} rows"


def _pipeline(folder: Path) -> Iterator[tuple[str, str]]:
    ds, board = (lk.dataset(folder / name) for name in ("airport.lance", "board.lance"))
    changes = f"{board.count_rows():,} changes of them on the board"
    yield "airport", f"{ds.version} versions, {ds.count_rows():,} rows; {changes}"


def _time_travel(folder: Path) -> Iterator[tuple[str, str]]:
    ds = lk.dataset(folder / "year.lance")
    size = f"{ds.version} versions, {ds.count_rows():,} rows, {len(ds.constraints.list())}"
    yield "year", f"{size} constraints; branch {', '.join(ds.branches.names())} merged"


def _search(folder: Path) -> Iterator[tuple[str, str]]:
    names = ("trips.lance", "airports.lance", "weather.lance")
    indices = [one for name in names for one in lk.dataset(folder / name).describe_indices()]
    yield "indices", ", ".join(f"{one.name} ({one.index_type})" for one in indices)


def _small_writes(folder: Path) -> Iterator[tuple[str, str]]:
    ds = lk.dataset(folder / "sensors.lance")
    shards = ds.mem_wal_shards()
    brought = sum(shard.merged_generation for shard in shards)
    rows = f"{ds.count_rows():,} rows by key"
    yield "sensors", f"{rows}, which {len(shards)} shards brought in {brought} generations"


def _every_file(folder: Path) -> Iterator[tuple[str, str]]:
    files = sum(path.is_file() for path in (folder / "tour.lance").rglob("*"))
    yield "tour", f"{files} files, each of them opened"


def _branches(folder: Path) -> Iterator[tuple[str, str]]:
    ds = lk.dataset(folder / "delays.lance")
    yield "delays", f"{ds.version} versions, {ds.count_rows():,} rows; merges of branches, undone"


def _write_ahead_logs(folder: Path) -> Iterator[tuple[str, str]]:
    ds = lk.dataset(folder / "stations.lance")
    waiting = len(ds.mem_wal_quarantine())
    yield "stations", f"{ds.count_rows():,} rows, {waiting} in quarantine"


MADE = dict(
    zip(
        NOTEBOOKS,
        (
            _quickstart,
            _data_files,
            _writers,
            _pipeline,
            _time_travel,
            _search,
            _small_writes,
            _every_file,
            _branches,
            _write_ahead_logs,
        ),
        strict=True,
    )
)


def _megabytes(uri: Path) -> str:
    files = [file for part in lk.dataset(uri).get_fragments() for file in part.data_files()]
    return f"{sum(file.size_bytes or 0 for file in files) / 1e6:.1f} MB"


def summary(folder: Path, notebooks: Sequence[Path]) -> str:
    """Return what the notebooks left in ``folder``."""
    lines = [line for path in notebooks for line in MADE[path](folder)]
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"  {label:<{width}}  {said}" for label, said in lines)


def pages(folder: Path, notebooks: Sequence[Path]) -> str:
    """Return a line for each page: a URI, which terminals open by a click."""
    found = (folder / path.with_suffix(".html").name for path in notebooks)
    return "".join(
        f"  {page.resolve().as_uri()}  the notebook with its outputs\n" for page in found
    )


def report(folder: Path, notebooks: Sequence[Path]) -> str:
    """Return what the notebooks did, and where to look."""
    return (
        f"They made, and read back:\n{summary(folder, notebooks)}\n\n"
        f"Where to look:\n{pages(folder, notebooks)}"
        f"  {folder / 'flights.lance'}  the dataset\n"
        f"  make lab  opens all {len(NOTEBOOKS)} notebooks in JupyterLab"
    )


def main() -> None:
    """Run, report, and keep everything for a look."""
    save = "--save" in sys.argv[1:]
    notebooks = NOTEBOOKS if save else DEMO
    folder = Path(tempfile.mkdtemp(prefix="lancekit-demo-"))
    for path in notebooks:
        print(f"Running {path.name}:")
        notebook = execute(path, folder, talk=True)
        nbformat.write(notebook, folder / path.name)
        write_page(notebook, folder / path.name)
        if save:
            nbformat.write(notebook, path)
    print(f"\n{report(folder, notebooks)}")


if __name__ == "__main__":
    main()
