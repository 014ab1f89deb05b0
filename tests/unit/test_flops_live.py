"""FLOPs of recorded programs equal those that torch counts while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import torchprof_magic as tp
from torchprof_magic.facts.ops.flops import flops_in

if TYPE_CHECKING:
    from pathlib import Path

# Batch, heads, length and features of the attention below.
BATCH, HEADS, LENGTH, FEATURES = 2, 4, 16, 8
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


def matrices() -> torch.Tensor:
    x, batch = torch.ones(12, 20, requires_grad=True), torch.ones(3, 12, 20)
    y = nn.Linear(20, 8)(x) @ torch.ones(8, 5)
    z = torch.einsum("bij,bkj->bik", batch, torch.ones(3, 6, 20)).sum()
    return y.sum() + z + torch.baddbmm(torch.ones(3, 12, 12), batch, batch.transpose(1, 2)).sum()


def convolutions() -> torch.Tensor:
    x = torch.ones(2, 4, 12, 14, requires_grad=True)
    y = nn.Conv2d(4, 8, 3, stride=2, padding=1)(x)
    y = nn.Conv2d(8, 8, 3, padding="same", groups=4)(y)
    y = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1)(y)
    one = nn.Conv1d(4, 6, 5, dilation=2)(torch.ones(2, 4, 30))
    return y.sum() + one.sum() + nn.Conv3d(2, 3, 2)(torch.ones(1, 2, 4, 4, 4)).sum()


def attention() -> torch.Tensor:
    x = torch.ones(BATCH, HEADS, LENGTH, FEATURES, requires_grad=True)
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum()


def given(*sizes: int) -> torch.Tensor:
    return torch.ones(*sizes, requires_grad=True)


def math_attention() -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(given(2, 4, 16, 8), given(2, 4, 12, 8), given(2, 4, 12, 8))


# Of each, all that torch counts.
MODULES: dict[str, Callable[[], torch.Tensor]] = {
    "linear of four dimensions": lambda: nn.Linear(20, 8)(given(2, 3, 4, 20)),
    "a product of batches that are repeated": lambda: given(2, 1, 4, 5) @ given(3, 5, 6),
    "a product with a vector": lambda: given(4, 5) @ given(5),
    "addbmm": lambda: torch.addbmm(given(4, 6), given(3, 4, 5), given(3, 5, 6)),
    "a depthwise convolution": lambda: nn.Conv2d(8, 8, 3, groups=8)(given(2, 8, 9, 9)),
    "a convolution without a batch": lambda: nn.Conv2d(4, 6, 3)(given(4, 9, 9)),
    "a dilated convolution in three dimensions": lambda: nn.Conv3d(4, 8, 3, groups=2, dilation=2)(given(1, 4, 7, 7, 7)),
    "a transposed convolution with groups": lambda: nn.ConvTranspose2d(4, 8, 3, groups=2)(given(2, 4, 5, 5)),
    "a transposed convolution with a stride": lambda: nn.ConvTranspose1d(4, 6, 3, 2, output_padding=1)(given(2, 4, 9)),
    "attention without a fused kernel": math_attention,
    "attention of several heads": lambda: nn.MultiheadAttention(16, 4, batch_first=True)(*(given(2, 5, 16),) * 3)[0],
    "LSTM": lambda: nn.LSTM(7, 6, 2, bidirectional=True)(given(5, 3, 7))[0],
    "GRU": lambda: nn.GRU(7, 6)(given(5, 3, 7))[0],
    "RNN": lambda: nn.RNN(7, 6)(given(5, 3, 7))[0],
    "a cell of an LSTM": lambda: nn.LSTMCell(7, 6)(given(3, 7))[0],
    "a convolution of 16 bits": lambda: nn.Conv2d(4, 6, 3).bfloat16()(given(2, 4, 9, 9).bfloat16()),
}


def recorded(folder: Path, program: Callable[[], torch.Tensor]) -> tuple[tp.Report, profile, int]:
    """Return a report, torch's profiler with its FLOPs of the same run, and what torch's counter says."""
    with FlopCounterMode(display=False) as counter:
        program().backward()
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as profiler:
        program().backward()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return tp.load(folder / "trace.json"), profiler, counter.get_total_flops()


@pytest.mark.parametrize("program", [matrices, convolutions])
def test_forward_and_backward_have_the_flops_of_torchs_counter(
    tmp_path: Path, program: Callable[[], torch.Tensor]
) -> None:
    report, _, expected = recorded(tmp_path, program)
    assert report.ops["flops"].sum() == expected > 0
    assert report.key_averages()["flops"].sum() == expected


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_modules_of_many_kinds_have_the_flops_of_torchs_counter(
    tmp_path: Path, module: Callable[[], torch.Tensor]
) -> None:
    report, _, expected = recorded(tmp_path, lambda: module().sum())
    # There is no such column where torch counts nothing.
    assert (report.ops["flops"].sum() if "flops" in report.ops.columns else 0) == expected
    assert report.ops["work_flops"].sum() > 0


def test_attention_on_the_cpu_which_torchs_counter_lacks_has_its_flops_too(tmp_path: Path) -> None:
    report, _, counted = recorded(tmp_path, attention)
    product = 2 * BATCH * HEADS * LENGTH * LENGTH * FEATURES
    # Two products forward, five backward; a causal mask saves none, as in torch.
    assert report.ops["flops"].sum() == counted + 7 * product


def test_products_of_matrices_have_the_flops_that_torchs_profiler_tells_row_by_row(tmp_path: Path) -> None:
    report, profiler, _ = recorded(tmp_path, matrices)
    theirs = {row.key: row.flops for row in profiler.key_averages() if row.key in PRODUCTS}
    averages = report.key_averages().filter(pl.col("key").is_in(PRODUCTS))
    assert dict(averages.select("key", "flops").rows()) == theirs
    assert set(theirs) == set(PRODUCTS)


def test_a_convolution_has_the_flops_that_torchs_profiler_tells_of_the_op_around_it(tmp_path: Path) -> None:
    report, profiler, _ = recorded(tmp_path, lambda: nn.Conv2d(4, 8, 3, stride=2)(torch.ones(2, 4, 12, 14)).sum())
    (theirs,) = [row.flops for row in profiler.key_averages() if row.key == "aten::conv2d"]
    (ours,) = report.ops.filter(pl.col("name") == "aten::convolution")["flops"]
    assert ours == theirs > 0


def test_flops_need_no_other_switch_than_their_own(tmp_path: Path) -> None:
    with tp.profile(with_flops=True, trace_dir=tmp_path) as p:
        matrices()
    assert p.report.ops["flops"].sum() > 0


def test_modules_have_the_flops_of_their_forward_and_backward() -> None:
    x, model = torch.ones(1024, 512), nn.Sequential(nn.Linear(512, 640), nn.ReLU(), nn.Linear(640, 512))
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    with tp.profile(with_flops=True, with_modules=True) as p:
        model(x).sum().backward()
    product = 2 * 1024 * 512 * 640
    found = p.report.modules.filter(pl.col("path") != "outside of modules")
    # The input needs no gradient.
    assert found.select("path", "flops", "backward_flops").rows() == [
        ("", 2 * product, 3 * product),
        ("0", product, product),
        ("1", 0, 0),
        ("2", product, 2 * product),
    ]
    assert counter.get_total_flops() == 5 * product


@pytest.mark.parametrize("ending", [".json.gz", ".torchprof"])
def test_the_flops_of_convolutions_survive_export_and_saving(tmp_path: Path, ending: str) -> None:
    report, _, expected = recorded(tmp_path, convolutions)
    copy = tmp_path / f"copy{ending}"
    if ending == ".torchprof":
        report.save(copy)
    else:
        report.export(copy)
    assert flops_in(tp.load(copy).trace).sum() == expected


def test_two_passes_have_the_flops_of_the_second_on_the_times_of_the_first() -> None:
    with tp.profile(with_flops=True, two_pass=True, wait=0, warmup=1, active=1) as p:
        for _ in p.steps(range(6)):
            convolutions().backward()
    report = p.report
    one = report.ops.filter(pl.col("name") == "aten::convolution")
    assert one["flops"].sum() > 0
    assert one["calls"].sum() == 5
