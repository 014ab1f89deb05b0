"""Memory of real recordings, against torch's own profile of them, the live objects, and planted leaks."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from amount import sampled

import torchprof_magic as tp

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory_categories.py"
KIB = 1024


@pytest.fixture(scope="module")
def benchmark() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return runpy.run_path(str(BENCHMARK), run_name="memory_categories")


@pytest.mark.parametrize("name", sampled(["MLP Adam", "conv+BN SGD-m", "transformer Adam tied"], 3))
@pytest.mark.filterwarnings("ignore")
def test_the_curve_and_its_categories_are_those_of_torch_where_it_knows_them(benchmark: Any, name: str) -> None:
    run = benchmark["Run"](benchmark["PROGRAMS"][name])
    frame = run.report.memory
    profile = benchmark["MemoryProfile"](run.kineto.profiler.kineto_results)
    times, levels = benchmark["theirs"](profile)
    own_times = frame["time_ns"].to_numpy() + run.report.trace.meta.start_unix_ns
    own = frame.select(f"{category}_bytes" for category in benchmark["OURS"]).to_numpy()
    at = times.searchsorted(own_times, side="right") - 1
    difference = frame["total_bytes"].to_numpy() - levels[at].sum(axis=1)
    assert len(set(difference.tolist())) == 1  # what each knows of before the recording
    mean = benchmark["mean"]
    window = own_times[0], own_times[-1]
    ours = dict(zip(benchmark["OURS"], mean(own_times, own, *window), strict=True))
    theirs = dict(zip(benchmark["OURS"], mean(times, levels, *window), strict=True))
    for category in ("gradient", "optimizer_state", "input"):
        assert ours[category] == pytest.approx(theirs[category], rel=0.01, abs=KIB)
    elsewhere = frame["unknown_bytes"].min()  # tensors of the process that are not the program's
    assert ours["unknown"] - elsewhere <= max(theirs["unknown"] / 4, 1)
    assert ours["parameter"] <= theirs["parameter"] + 1  # torch counts scratch of the optimizer as parameters


@pytest.mark.parametrize(
    "name", sampled(["MLP SGD-m", "MLP Adam for-loop", "MLP Adam set_to_none=False", "conv+BN SGD-m accumulation"])
)
@pytest.mark.filterwarnings("ignore")
def test_after_each_step_parameters_gradients_and_state_are_those_of_the_live_objects(
    benchmark: Any, name: str
) -> None:
    run = benchmark["Run"](benchmark["PROGRAMS"][name])
    frame, events = run.report.memory, run.report.events
    ends = events.filter(events["name"].cast(pl.String).str.starts_with("Optimizer.step#"))
    assert ends.height == 3
    for end_ns, live in zip((ends["start_ns"] + ends["dur_ns"]).to_list(), run.live[2:], strict=True):
        row = frame.filter(pl.col("time_ns") <= end_ns)[-1].to_dicts()[0]
        assert {category: row[f"{category}_bytes"] for category in live} == live


def small_run(*, with_modules: bool = False, steps: int = 5) -> Any:
    """A recording with memory alone: no shapes, no stacks."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters())
    with tp.profile(profile_memory=True, with_modules=with_modules, warmup=1, active=steps) as p:
        for _ in range(steps + 1):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            p.step()
    return p.report


def test_a_saved_run_has_the_same_memory(tmp_path: Path) -> None:
    report = small_run()
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    assert again.memory.equals(report.memory)
    assert again.allocations.equals(report.allocations)
    assert again.memory_at("peak").equals(report.memory_at("peak"))
    assert again.leaks.equals(report.leaks)
    assert again.memory["parameter_bytes"].min() == 4 * (8 * 16 + 16 + 16 * 2 + 2)


def test_the_peak_is_listed_in_full_with_names_of_parameters_and_modules() -> None:
    report = small_run(with_modules=True)
    found = report.memory_at("peak")
    assert found["size_bytes"].sum() == report.memory["total_bytes"].max()
    assert "0.weight" in found.filter(category="parameter")["name"].to_list()
    known = report.allocations.filter(pl.col("category") == "activation")["module"].drop_nulls().unique()
    assert {"0", "1"} <= set(known.to_list())


class Scored(torch.nn.Module):
    """Holds the most memory in a variable of its forward, and keeps one tensor as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(16, 4096)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        scores = self.head(given)
        weights = scores.softmax(-1)
        self.last = weights.detach() + 1
        return weights


@pytest.mark.parametrize("lines", [True, False])
def test_what_holds_the_peak_is_called_what_the_program_calls_it(lines: bool) -> None:
    model, aside, cache = Scored(), torch.ones(1000, 1000), {"mask": torch.ones(500, 1000)}
    logits = None

    def step() -> None:
        nonlocal logits
        logits = model(torch.randn(8, 128, 16))

    with tp.profile(profile_memory=True, lines=lines, with_modules=True, active=3, warmup=1) as p:
        for _ in p.steps(range(5)):
            step()
    found = p.report.memory_at("peak").filter(pl.col("shape").is_not_null())
    named = set(found.select("name", "shape", "module").rows())
    large = "[8, 128, 4096]"
    assert {("aside", "[1000, 1000]", None), ("cache['mask']", "[500, 1000]", None)} <= named
    assert ("model.last", large) in {(name, shape) for name, shape, _ in named}
    assert {shape for _, shape, module in named if module == "head"} == {large}
    assert ({"logits", "scores"} if lines else {"logits"}) <= {name for name, shape, _ in named if shape == large}
    assert aside.numel() + cache["mask"].numel() == 1_500_000


def test_hostile_names_are_text_and_code_of_the_users_classes_does_not_run() -> None:
    text = "<script>alert(1)</script>`'\n"

    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __repr__(self) -> str:
            raise AssertionError("repr")

    odd, cache = Odd(), {text: torch.ones(1000, 1000)}
    cache[odd] = torch.ones(1000, 1000)  # type: ignore[index]
    report = small_run()
    del odd
    names = report.memory_at("peak")["name"].drop_nulls().to_list()
    assert [name for name in names if name.startswith('cache["<script>')]
    assert "cache[<Odd>]" in names
    assert "<script>alert" not in report._repr_html_()
    assert len(cache) == 2


def test_a_block_without_steps_knows_what_was_there_before() -> None:
    model = torch.nn.Linear(100, 100)
    with tp.profile(profile_memory=True) as p:
        model(torch.randn(4, 100))
    assert p.report.memory["parameter_bytes"].to_list()[0] == 4 * (100 * 100 + 100)


def test_gradients_are_known_without_an_optimizer() -> None:
    model = torch.nn.Linear(64, 64)
    with tp.profile(profile_memory=True, warmup=1, active=3) as p:
        for _ in range(4):
            model(torch.randn(4, 64)).sum().backward()
            for parameter in model.parameters():
                parameter.grad = None
            p.step()
    gradients = p.report.allocations.filter(category="gradient")
    assert gradients["size_bytes"].sum() == 3 * 4 * (64 * 64 + 64)


def test_a_run_in_two_passes_has_the_same_categories() -> None:
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.Adam(model.parameters())
    with tp.profile(two_pass=True, profile_memory=True, active=2) as p:
        for _ in p.steps(range(12)):
            model(torch.randn(4, 32)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    size = 4 * (32 * 32 + 32)
    assert p.report.memory["parameter_bytes"].unique().to_list() == [size]
    assert p.report.memory["gradient_bytes"].max() == size


def test_a_file_alone_says_nothing_of_holders(tmp_path: Path) -> None:
    again = tp.load(small_run().save(tmp_path / "run.torchprof"))
    with pytest.raises(ValueError, match="process that recorded it"):
        again.holders()


def test_a_program_that_keeps_nothing_has_no_leaks() -> None:
    report = small_run()
    assert report.leaks.height == 0
    assert report.holders().height == 0
