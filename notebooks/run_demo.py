"""Run the quickstart notebook in a folder of its own, and say what it did and where to look.

``--save`` also puts the outputs into the notebook itself, as they are published.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

import lancekit as lk

QUICKSTART = Path(__file__).with_name("01_quickstart.ipynb")
CELL_SECONDS = 300


def execute(folder: Path, *, talk: bool = False) -> NotebookNode:
    """Run the notebook from top to bottom, with ``folder`` as the working folder.

    Parameters
    ----------
    folder
        Where the notebook's datasets will be.
    talk
        Whether to print each heading when its cells begin.
    """
    notebook = nbformat.read(QUICKSTART, as_version=4)
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
    return client.execute()


def summary(folder: Path) -> str:
    """Return what the notebook left in ``folder``."""
    ds = lk.dataset(folder / "flights.lance")
    branches = {name: ds.checkout_version((name, None)) for name in ds.branches.names()}
    tags = [f"{name} (version {tag['version']})" for name, tag in ds.tags.list().items()]
    lines = [
        ("dataset", f"{len(ds.versions())} versions, {ds.count_rows():,} rows at the newest"),
        ("tags", ", ".join(tags)),
        *(
            (f"branch {name}", f"{len(b.versions())} versions, {b.count_rows():,} rows")
            for name, b in branches.items()
        ),
        ("clone", f"{lk.dataset(folder / 'mine.lance').count_rows():,} rows of its own version"),
    ]
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"  {label:<{width}}  {said}" for label, said in lines)


def report(folder: Path) -> str:
    """Return what the notebook did, and where to look."""
    return (
        f"It made, and read back:\n{summary(folder)}\n\n"
        "Where to look:\n"
        f"  {folder / QUICKSTART.name}  the notebook with its outputs\n"
        f"  {folder / 'flights.lance'}  the dataset\n"
        "  make lab  opens the notebooks in JupyterLab"
    )


def main() -> None:
    """Run, report, and keep everything for a look."""
    folder = Path(tempfile.mkdtemp(prefix="lancekit-demo-"))
    print(f"Running {QUICKSTART.name}:")
    notebook = execute(folder, talk=True)
    nbformat.write(notebook, folder / QUICKSTART.name)
    if "--save" in sys.argv[1:]:
        nbformat.write(notebook, QUICKSTART)
    print(f"\n{report(folder)}")


if __name__ == "__main__":
    main()
