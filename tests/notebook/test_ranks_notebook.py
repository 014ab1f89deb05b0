from __future__ import annotations

from pathlib import Path

import nbformat
from amount import thorough
from nbclient import NotebookClient

SOURCE = Path(__file__).parents[2] / "notebooks" / "ranks.ipynb"


@thorough
def test_the_notebook_of_many_ranks_runs_and_names_the_line_of_the_late_one(tmp_path: Path) -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "".join(output.get("text", "") for output in outputs)
    assert "Rank 1 is late." in said
    assert "line 5 of the cell, time.sleep(0.2)" in said
    assert "2 of 2 ranks, Rank 1 is late" in said
    shown = [output for output in outputs if "data-tp-static" in output.get("data", {}).get("text/html", "")]
    assert len(shown) == 1
    assert (tmp_path / "ranks.html").stat().st_size > 50_000


def test_the_committed_notebook_of_many_ranks_has_no_outputs() -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
