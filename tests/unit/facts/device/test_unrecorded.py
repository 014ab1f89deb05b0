from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import allocation, chrome, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.device.unrecorded import signs_of_device
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.trace import Trace

OP = span("aten::mm", 0, 50)


def with_cell(trace: Trace, source: str, *devices: str) -> Trace:
    cell = CellSource(label="In [1]", source=source)
    return replace(trace, meta=replace(trace.meta, cell=cell, device_names=devices))


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        (make_trace(OP, launch(10, 2, 1)), "the host made 1 launch"),
        (make_trace(OP, span("aten::cudnn_convolution", 60, 5)), "1 op ran that only a GPU runs"),
        (make_trace(OP, allocation(5, 64, device=1)), "memory of a GPU was allocated"),
        (with_cell(make_trace(OP), "model.cuda()", "NVIDIA H100"), "the cell moves its work to one"),
    ],
)
def test_a_gpu_that_was_not_recorded_is_no_program_of_the_cpu(trace: Trace, why: str) -> None:
    verdict = find_verdict(trace)
    assert (verdict.kind, verdict.title) == ("none", "GPU not recorded")
    assert why in str(verdict)


def test_a_program_of_the_cpu_shows_no_sign_of_a_device() -> None:
    assert signs_of_device(make_trace(OP, span("aten::cudnn_is_acceptable", 60, 5))) is None
    assert signs_of_device(with_cell(make_trace(OP), "x = x.cuda() if torch.cuda.is_available() else x")) is None
    assert signs_of_device(make_trace(allocation(5, 64, device=1))) is None  # a curve of memory alone


def test_a_device_that_was_recorded_needs_no_sign() -> None:
    assert signs_of_device(make_trace(OP, launch(10, 2, 1), kernel("gemm", 20, 5, 1))) is None


def test_kernels_that_lost_their_times_were_recorded(tmp_path: Path) -> None:
    path = tmp_path / "zeros.json"
    events = [span("aten::mm", 5_000 + 100 * n, 50) for n in range(4)]
    events += [launch(5_010 + 100 * n, 2, n + 1) for n in range(4)]
    events += [kernel("gemm", 0, 0, n + 1) for n in range(4)]
    path.write_bytes(chrome(*events))
    verdict = tp.load(path).verdict
    assert verdict.title == "GPU not recorded"
    assert "Events have lost their times" in str(verdict)
    assert "activities" not in str(verdict)


@pytest.mark.parametrize(
    ("source", "moves"),
    [
        ("%%torchprof\nmodel.cuda()", True),
        ('y = x.to("cuda:1")', True),
        ("y = x @ x  # model.cuda() comes later", False),
        ('device = "cuda" if use_gpu else "cpu"', False),
        ("if torch.cuda.is_available():\n    model.cuda()", False),
        ("torch.cuda.synchronize()", False),
        ("print('move it to cuda')", False),
        ("this is (no Python", False),
    ],
)
def test_code_counts_only_if_it_moves_work_whatever_happens(source: str, moves: bool) -> None:
    found = signs_of_device(with_cell(make_trace(OP), source, "NVIDIA H100"))
    assert (found is not None) == moves
