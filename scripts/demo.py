"""Run the quickstart notebook as a user would, and write it and its report to build/."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "notebooks" / "quickstart.ipynb"
BUILD = ROOT / "build"
CELL_TIMEOUT_S = 600


def main() -> int:
    """Execute the notebook with build/ as its working directory and print where the results are."""
    BUILD.mkdir(exist_ok=True)
    notebook = nbformat.read(SOURCE, as_version=4)
    print("Running notebooks/quickstart.ipynb (about half a minute) ...", flush=True)
    NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": str(BUILD)}}).execute()
    nbformat.write(notebook, BUILD / "quickstart.ipynb")
    print(_speedup(notebook))
    for name in ("quickstart.ipynb", "quickstart.html"):
        print(f"  build/{name}: {(BUILD / name).stat().st_size / 1e6:.1f} MB")
    opener = "open" if shutil.which("open") else "xdg-open"
    print(f"Open the report with `{opener} build/quickstart.html`, or run `make lab` for the live notebook.")
    return 0


def _speedup(notebook: nbformat.NotebookNode) -> str:
    """Return the line in which the notebook prints its speed-up."""
    texts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    return next(text.strip() for text in texts if "times as fast" in text)


if __name__ == "__main__":
    sys.exit(main())
