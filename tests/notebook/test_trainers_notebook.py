"""In cells, real trainers make the steps by their callback, or else by the optimizer, and the report says so."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from amount import thorough
from kernels import started

PROGRAMS = Path(__file__).parents[1] / "callbacks"
pytestmark = [thorough, pytest.mark.slow]

SETUP = """
%load_ext torchprof_magic
import sys
sys.argv = {arguments!r}
sys.path[:0] = {folders!r}
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    from {module} import *
"""
LAST = "print(tp.last.summary().partition('\\n')[0], [each.code for each in tp.last.problems])"
TRAINERS = [
    ("transformers", "transformers_program", "train", "hf", "model=Model(3, fails)"),
    ("lightning.pytorch", "lightning_program", "fit", "lightning", "module=Module(3, fails)"),
    ("pytorch_lightning", "lightning_program", "fit", "lightning", "module=Module(3, fails)"),
]


@pytest.mark.parametrize(("library", "program", "train", "name", "failing"), TRAINERS)
def test_a_cell_says_what_made_its_steps(library: str, program: str, train: str, name: str, failing: str) -> None:
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} is not installed; `make thorough` installs it")
    folders = [str(PROGRAMS), str(PROGRAMS.parent)]
    with started(SETUP.format(arguments=["", library], folders=folders, module=program)) as kernel:
        kernel.run(f"%%torchprof -q\n{train}()")
        said = kernel.run(LAST).text
        assert re.search(rf"steps 0–3 recorded.*, one per call of optimizer\.step\(\) in Trainer\.{train}\(\)", said)
        assert "capture.by_optimizer" in said
        kernel.run(f"%%torchprof -q\ncallback = tp.callbacks.{name}()\n{train}(callback)")
        said = kernel.run(LAST).text
        assert re.search(rf"steps 2–4 recorded.*, stepped by callbacks\.{name}\(\)", said)
        assert "capture." not in said.replace("capture.no_lines", "")  # of a loop so short
        assert kernel.run("print(callback.report is tp.last)").text == "True\n"
        kernel.run(f"callback = tp.callbacks.{name}(**ALL)\n{train}(callback, {failing})")
        assert "True" in kernel.run("print(not torch.autograd.profiler._is_profiler_enabled)").text
        assert "steps 0–3 recorded" in kernel.run(LAST).text
        assert kernel.run("print(callback.report is tp.last)").text == "True\n"
