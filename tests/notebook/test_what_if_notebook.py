from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from amount import thorough
from nbclient import NotebookClient

SOURCE = Path(__file__).parents[2] / "notebooks" / "what_if.ipynb"
WAYS = ("with workers that load", "without the spare layers", "without the log")
TRIES = 3


def table_of(folder: Path) -> dict[str, tuple[float, float]]:
    """Run the notebook, and return what it predicts and measures of each change, in ms."""
    notebook = nbformat.read(SOURCE, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    text = "".join(output.get("text", "") for output in notebook.cells[-1].get("outputs", []))
    rows = re.findall(r"^([a-z ]+?)\s+([\d.]+) ms\s+([\d.]+) ms$", text, re.MULTILINE)
    return {name: (float(predicted), float(measured)) for name, predicted, measured in rows}


@thorough
@pytest.mark.slow
def test_what_is_predicted_comes_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # On a machine that is busy with something else, one measurement may be off: not each of three.
    for _ in range(TRIES):
        found = table_of(tmp_path)
        assert tuple(found) == WAYS
        if all(abs(predicted / measured - 1) < 0.3 for predicted, measured in found.values()):
            break
    else:
        pytest.fail(f"predicted and measured, in ms: {found}")


def test_the_committed_notebook_of_what_if_has_no_outputs() -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
