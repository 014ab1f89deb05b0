from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from amount import thorough
from nbclient import NotebookClient

SOURCE = Path(__file__).parents[2] / "notebooks" / "compare.ipynb"


@thorough
def test_the_comparison_finds_the_added_line_and_its_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TORCHPROF_RUNS", str(tmp_path / "runs"))
    notebook = nbformat.read(SOURCE, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    assert "aten::item" in text
    assert "norms = [parameter.grad.norm().item()" in text
    assert "The profile breaks its limits:" in text
    assert "before-norms" in text
    assert "Deleted the kept run before-norms." in text


def test_the_committed_compare_notebook_has_no_outputs() -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
