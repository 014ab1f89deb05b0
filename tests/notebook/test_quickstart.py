from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from amount import thorough
from nbclient import NotebookClient

SOURCE = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"


@thorough
@pytest.mark.slow
def test_the_quickstart_runs_and_acting_on_its_reports_makes_training_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the threads of an op wait for each other, and the ops would limit the loop.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(SOURCE, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    reports = [output for output in outputs if "data-tp-static" in output.get("data", {}).get("text/html", "")]
    verdicts = [re.search(r"<p><b>(.*?)\.</b>", report["data"]["text/html"]).group(1) for report in reports]  # type: ignore[union-attr]
    assert verdicts[0] == "Data-bound"
    assert len(verdicts) == 3
    (gain,) = re.findall(r"([\d.]+) times as fast", "".join(output.get("text", "") for output in outputs))
    assert float(gain) > 1.3
    assert (tmp_path / "quickstart.html").stat().st_size > 50_000
    (saved,) = notebook.metadata["widgets"].values()
    front_end = [model for model in saved["state"].values() if len(json.dumps(model.get("buffers", ""))) > 150_000]
    front_end = [model for model in front_end if "_module" in str(model["buffers"][0]["path"])]
    assert len(front_end) == 1
    whole = len(json.dumps(saved)) + sum(len(json.dumps(report)) for report in reports)
    assert whole - len(json.dumps(front_end)) < 200_000 * len(reports)


def test_the_committed_notebook_has_no_outputs() -> None:
    notebook = nbformat.read(SOURCE, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
