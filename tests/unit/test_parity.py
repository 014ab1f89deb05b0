"""torch's own table is the oracle; it is on no path of the product."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from torchprof_magic.loading import load

# torch keeps times as float64 us of ns counts; half a ns is the most that writing and reading can lose.
TOLERANCE_US = 0.0015


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with record_function("attend"):
            x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(self.norm(x))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = model(torch.randn(4, 16, 32)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def recurse(depth: int) -> None:
    with record_function("recurse"):
        torch.ones(8).sum()
        if depth:
            recurse(depth - 1)


@pytest.mark.parametrize("flags", [{}, {"record_shapes": True}, {"with_stack": True, "profile_memory": True}])
def test_key_averages_equals_torchs_own_for_every_op_of_a_training_step(tmp_path: Path, flags: dict[str, bool]) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train_step(model, optimizer)
    with profile(activities=[ProfilerActivity.CPU], **flags) as profiler:  # type: ignore[arg-type]
        for _ in range(3):
            train_step(model, optimizer)
            recurse(4)
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))

    ours = {
        (row["key"], row["kind"] == "user_annotation"): row
        for row in load(tmp_path / "trace.json").key_averages().to_dicts()
    }
    theirs = {
        (row.key, row.is_user_annotation): row
        for row in profiler.key_averages()
        if row.key != "[memory]" and not _is_python(profiler, row.key)
    }
    assert len(theirs) > 60
    assert set(ours) == set(theirs)
    for key, row in theirs.items():
        mine = ours[key]
        assert mine["count"] == row.count, key
        assert mine["self_cpu_ns"] / 1e3 == pytest.approx(row.self_cpu_time_total, abs=TOLERANCE_US * row.count), key
        assert mine["total_cpu_ns"] / 1e3 == pytest.approx(row.cpu_time_total, abs=TOLERANCE_US * row.count), key


def _is_python(profiler: profile, key: str) -> bool:
    """Return whether torch took the row from its Python tracer; those are frames, not ops."""
    return any(event.is_python_function for event in profiler.events() if event.name == key)


def test_key_averages_by_input_shape_equals_torchs_own(tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters())
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        train_step(model, optimizer)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = load(tmp_path / "trace.json").key_averages(group_by_input_shape=True).to_dicts()
    ours = sorted((row["key"], row["count"]) for row in rows)
    theirs = sorted((row.key, row.count) for row in profiler.key_averages(group_by_input_shape=True))
    assert ours == theirs
