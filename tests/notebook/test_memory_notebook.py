from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from amount import thorough
from nbclient import NotebookClient

SOURCE = Path(__file__).parents[2] / "notebooks" / "memory.ipynb"


@thorough
@pytest.mark.slow
def test_the_hunt_for_memory_finds_the_leak_its_holder_and_a_saving_that_comes_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(SOURCE, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = {
        cell.source: "".join(
            output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    }
    assert "history" in texts["first.holders()"]
    whole = "\n".join(texts.values())
    before, after = map(float, re.findall(r"([\d.]+) MB per step were left behind, and ([\d.]+) MB", whole)[0])
    assert before > 5 * max(after, 0.01)
    measured, predicted = map(float, re.findall(r"so ([\d.]+) MB less \(([\d.]+) MB predicted\)", whole)[0])
    assert measured == pytest.approx(predicted, rel=0.2)


def test_the_committed_memory_notebook_has_no_outputs() -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
