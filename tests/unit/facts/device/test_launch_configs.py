"""Grid, block, registers, shared memory and occupancy of kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import chrome, kernel, launch, span

import torchprof_magic as tp
from torchprof_magic.facts.device.launch_configs import launch_configs, uses_matrix_cores
from torchprof_magic.tables.timeline.slices import timeline_slices

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_nn_align8>(Params)"


def config(**values: Any) -> dict[str, Any]:
    return {
        "grid": [64, 2, 1],
        "block": [256, 1, 1],
        "registers per thread": 40,
        "shared memory": 16_384,
        "est. achieved occupancy %": 75,
    } | values


def loaded(tmp_path: Path, *events: Any) -> tp.Report:
    path = tmp_path / "trace.json"
    path.write_bytes(chrome(*events))
    return tp.load(path)


def runs(name: str, *durations_and_configs: tuple[float, dict[str, Any]]) -> list[Any]:
    made, at = [], 0.0
    for call, (dur_us, args) in enumerate(durations_and_configs):
        made += [span("aten::mm", at, 2), launch(at, 1, call), kernel(name, at + 1, dur_us, call, **args)]
        at += dur_us + 10
    return made


def test_a_kernel_shows_the_launch_that_took_most_time_and_its_mean_occupancy(tmp_path: Path) -> None:
    report = loaded(
        tmp_path,
        *runs(
            GEMM,
            (30, config(grid=[64, 2, 1], **{"est. achieved occupancy %": 100})),
            (10, config(grid=[8, 1, 1], **{"est. achieved occupancy %": 20})),
        ),
    )
    row = report.kernels.row(0, named=True)
    assert (row["grid"], row["block"]) == ("64×2×1", "256×1×1")
    assert (row["registers"], row["shared_bytes"]) == (40, 16_384)
    # 30 us at 100 % and 10 us at 20 %.
    assert row["occupancy_ratio"] == pytest.approx(0.8)
    assert row["tensor_cores"] is True


def test_what_a_file_does_not_say_is_unknown(tmp_path: Path) -> None:
    only_grid = {"grid": [7, 1, 1], "block": [64, 1, 1]}
    report = loaded(tmp_path, *runs("add", (5, only_grid)))
    row = report.kernels.row(0, named=True)
    assert row["grid"] == "7×1×1"
    assert [row[name] for name in ("registers", "shared_bytes", "occupancy_ratio")] == [None] * 3
    without = loaded(tmp_path, *runs("add", (5, {})))
    assert without.kernels["grid"].to_list() == [None]
    assert without.events["launch_config"].null_count() == without.events.height


def test_a_file_that_is_indented_has_the_same_launches(tmp_path: Path) -> None:
    events = runs("add", (5, config()))
    plain = loaded(tmp_path, *events).events["launch_config"].drop_nulls().to_list()
    text = json.dumps(json.loads(chrome(*events)), indent=2)
    (tmp_path / "indented.json").write_text(text)
    assert tp.load(tmp_path / "indented.json").events["launch_config"].drop_nulls().to_list() == plain


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", "nonsense", '["a", [1], -1, null, 900]', "[[1, -1], [true], 1e99, {}, []]", "[" * 5_000],
)
def test_odd_values_are_unknown(text: str) -> None:
    row = launch_configs(pl.Series([text])).row(0)
    assert row[0] is None
    assert row[4] is None


def test_unknown_configurations_stay_null() -> None:
    found = launch_configs(pl.Series([None, "[[1,2,3],[4],5,6,50]"], dtype=pl.Categorical()))
    assert found.rows() == [(None,) * 5, ("1×2×3", "4", 5, 6, 0.5)]


@pytest.mark.parametrize(
    ("name", "is_used"),
    [
        (GEMM, True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64_MI16x16x1_SN", True),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>", True),
        ("ampere_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", True),
        ("volta_sgemm_128x32_nt", False),
        ("cutlass_80_simt_sgemm_64x64_8x5_nn_align1", False),
        ("void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>", False),
    ],
)
def test_names_tell_the_use_of_tensor_cores(name: str, is_used: bool) -> None:
    assert uses_matrix_cores(name) is is_used


def test_the_timeline_shows_the_launch_of_a_kernel_and_the_bandwidth_of_a_copy(tmp_path: Path) -> None:
    copy = [
        span("cudaMemcpyAsync", 100, 5, cat="cuda_runtime", correlation=9),
        span("Memcpy HtoD", 110, 4, cat="gpu_memcpy", pid=0, tid=7, correlation=9, device=0, stream=7, bytes=8_000),
    ]
    report = loaded(tmp_path, *runs("add", (5, config())), *copy)
    slices = timeline_slices(report.trace)
    row = slices.frame.filter(pl.col("kind") == "kernel").row(0, named=True)
    assert (row["grid"], row["block"]) == ("64×2×1", "256×1×1")
    assert row["resources"] == "40 registers · 16 KiB of shared memory · occupancy 75 %"
    # 8 kB in 4 us.
    assert slices.frame.filter(pl.col("kind") == "memcpy")["bandwidth"].to_list() == ["2 GB/s"]


HIP_LAUNCH = span(
    "hipLaunchKernel",
    0,
    5,
    cat="cuda_runtime",
    correlation=1,
    kernel='void "add"<int>',
    grid=[7, 1, 1],
    block=[64, 1, 1],
)


def test_a_launch_call_says_which_kernel_it_starts_and_how(tmp_path: Path) -> None:
    events = loaded(tmp_path, HIP_LAUNCH, span("hipMalloc", 10, 5, cat="cuda_runtime", correlation=2)).events
    assert events["kernel"].to_list() == ['void "add"<int>', None]
    assert events["launch_config"].to_list() == ["[[7,1,1],[64,1,1],null,null,null]", None]


def test_an_exported_launch_call_says_the_same(tmp_path: Path) -> None:
    report = loaded(tmp_path, HIP_LAUNCH)
    again = tp.load(report.export(tmp_path / "again.json"))
    assert again.events["kernel"].to_list() == report.events["kernel"].to_list()
    assert launch_configs(again.events["launch_config"]).equals(launch_configs(report.events["launch_config"]))
