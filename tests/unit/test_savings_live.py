"""Estimated savings of real recordings, against the same program after the change."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from amount import sampled

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "savings.py"
HAS_BF16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
NEEDS_BF16 = pytest.mark.skipif(not HAS_BF16, reason="convolutions of this CPU work on float32 copies of bfloat16")


@pytest.fixture(scope="module")
def benchmark() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return runpy.run_path(str(BENCHMARK), run_name="savings")


@pytest.mark.parametrize(
    ("program", "title", "tolerance"),
    sampled(
        [
            ("MLP", "checkpoints, each of 6 Perceptron", 0.05),
            ("MLP", "set_to_none=True, not False", 0.05),
            ("MLP", "bfloat16 momentum", 0.05),
            ("transformer", "checkpoints, each of 4 DecoderLayer", 0.05),
            ("transformer", "checkpoint, layers.1", 0.05),
            ("transformer", "half the batch", 0.1),
            ("conv+BN", "checkpoints, each of 4 Residual", 0.05),
            pytest.param("conv+BN", "bfloat16 for everything", 0.1, marks=NEEDS_BF16),
        ],
        5,
    ),
)
@pytest.mark.filterwarnings("ignore")
def test_a_change_saves_what_was_estimated(benchmark: Any, program: str, title: str, tolerance: float) -> None:
    known = benchmark["PROGRAMS"][program]
    change = benchmark["changes"](known, benchmark["module_count"](known))[title]
    peak, estimated, measured = benchmark["outcome"](change)
    assert measured > peak / 100
    assert estimated == pytest.approx(measured, rel=tolerance)
