"""What ten ops of a recorded program had to do, against figures worked out by hand, and what those of real traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from compare_work import CLOSE, rows_of
from torch.nn import functional

import torchprof_magic as tp

if TYPE_CHECKING:
    from pathlib import Path

# Operations and bytes, each of one call.
EXPECTED = {
    "aten::mm": (2 * 32 * 64 * 48, (32 * 64 + 64 * 48 + 32 * 48) * 4),
    "aten::addmm": (2 * 32 * 64 * 16, (32 * 64 + 64 * 16 + 32 * 16 + 16) * 4),
    "aten::bmm": (2 * 3 * 8 * 9 * 10, 3 * (72 + 90 + 80) * 4),
    "aten::convolution": (2 * 2 * 8 * 4 * 9 * 14 * 14, (2 * 4 * 256 + 8 * 36 + 2 * 8 * 196 + 8) * 4),
    "aten::_softmax": (5 * 32 * 64, 2 * 32 * 64 * 4),
    "aten::native_layer_norm": (8 * 32 * 64 + 2 * 32, (2 * 32 * 64 + 128) * 4 + 2 * 32 * 4),
    "aten::mul": (32 * 64, (32 * 64 * 2 + 64) * 4),
    "aten::sum": (32 * 64, (32 * 64 + 32) * 4),
    "aten::embedding": (0, 2 * 7 * 5 * 4 + 7 * 8),
    "aten::gelu": (32 * 64, 2 * 32 * 64 * 4),
}


def program() -> None:
    x, y = torch.rand(32, 64), torch.rand(64, 48)
    torch.mm(x, y)
    functional.linear(x, torch.rand(16, 64), torch.rand(16))
    torch.bmm(torch.rand(3, 8, 9), torch.rand(3, 9, 10))
    functional.conv2d(torch.rand(2, 4, 16, 16), torch.rand(8, 4, 3, 3), torch.rand(8))
    functional.softmax(x, -1)
    functional.layer_norm(x, (64,), torch.rand(64), torch.rand(64))
    torch.mul(x, torch.rand(64))
    torch.sum(x, 1)
    functional.embedding(torch.arange(7), torch.rand(10, 5))
    functional.gelu(x)


def test_ten_ops_have_the_operations_and_bytes_that_hands_work_out(tmp_path: Path) -> None:
    with tp.profile(record_shapes=True, trace_dir=tmp_path) as p:
        program()
    found = {
        name: (flops, moved) for name, flops, moved in p.report.ops.select("name", "work_flops", "moved_bytes").rows()
    }
    assert {name: found[name] for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("number", ["03", "04"])
def test_real_traces_have_the_figures_of_another_program(traces: Path, number: str) -> None:
    (trace,) = traces.glob(f"{number}_*")
    capture = next(iter(traces.glob(f"*_of_{number}.json.gz")), None)
    table = traces / "perf" / f"{number}_unified_perf_summary.csv"
    notes = [note for row in rows_of(tp.load(trace, capture=capture).trace, table) for note in row.notes]
    assert "?" not in notes
    assert notes.count("same") >= 40
    assert CLOSE == 0.01
