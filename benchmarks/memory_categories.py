"""Memory by category beside torch's own: mean bytes of one recorded run read both ways, and the time that each takes.

torch's ``MemoryProfile`` needs shapes and Python stacks, so all runs are recorded with them; the categories of this
package need neither. Each row is one run of some steps of one program with one optimizer. The mean is over the time
from the first to the last change (byte-seconds over seconds). The totals may differ by a constant: by what each knows
of before the recording. A line follows where parameters, gradients or state are not those of the live objects.
"""

from __future__ import annotations

import argparse
import gc
import warnings
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch.profiler._memory_profiler import Action, Category, MemoryProfile
from torch.utils.checkpoint import checkpoint

import torchprof_magic as tp
from torchprof_magic.tables.memory.in_use import memory_frame

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
OURS = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer_state",
    "activation",
    "input",
    "temporary",
    "autograd",
    "unknown",
)
THEIRS = {
    Category.PARAMETER: "parameter",
    Category.GRADIENT: "gradient",
    Category.OPTIMIZER_STATE: "optimizer_state",
    Category.ACTIVATION: "activation",
    Category.INPUT: "input",
    Category.TEMPORARY: "temporary",
    Category.AUTOGRAD_DETAIL: "autograd",
    None: "unknown",
}


def mlp() -> tuple[torch.nn.Module, Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10))
    return model, lambda: (torch.randn(256, 256), torch.randint(0, 10, (256,)))


class Transformer(torch.nn.Module):
    """Two layers of an encoder behind an embedding, with tied or own weights, with or without checkpoints."""

    def __init__(self, *, is_tied: bool = False, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(500, 128)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True) for _ in range(2)
        )
        self.head = torch.nn.Linear(128, 500, bias=False)
        self.is_checkpointed = is_checkpointed
        if is_tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of each token."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.is_checkpointed else layer(x)
        return self.head(x).flatten(0, 1)


def transformer(**how: bool) -> tuple[torch.nn.Module, Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    model = Transformer(**how)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(0, 500, (16, 64))
        return tokens, tokens.reshape(-1)

    return model, batch


def convolutions() -> tuple[torch.nn.Module, Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    parts: list[torch.nn.Module] = []
    for before, after in ((3, 16), (16, 32)):
        parts += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.BatchNorm2d(after), torch.nn.ReLU()]
    model = torch.nn.Sequential(*parts, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))
    return model, lambda: (torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,)))


MODELS: dict[str, Callable[..., tuple[torch.nn.Module, Callable[[], tuple[torch.Tensor, torch.Tensor]]]]] = {
    "MLP": mlp,
    "transformer": transformer,
    "conv+BN": convolutions,
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD-m": lambda p, **how: torch.optim.SGD(p, lr=0.01, momentum=0.9, **how),
    "Adam": torch.optim.Adam,
}
# Model, options of the model, optimizer, options of the optimizer, batches a step, whether gradients are set to None.
Program = tuple[str, dict[str, bool], str, dict[str, bool], int, bool]
PROGRAMS: dict[str, Program] = {
    **{f"{model} {name}": (model, {}, name, {}, 1, True) for model in MODELS for name in OPTIMIZERS},
    "MLP Adam for-loop": ("MLP", {}, "Adam", {"foreach": False}, 1, True),
    "MLP Adam set_to_none=False": ("MLP", {}, "Adam", {}, 1, False),
    "conv+BN SGD-m accumulation": ("conv+BN", {}, "SGD-m", {}, 3, True),
    "transformer Adam checkpoint": ("transformer", {"is_checkpointed": True}, "Adam", {}, 1, True),
    "transformer Adam tied": ("transformer", {"is_tied": True}, "Adam", {}, 1, True),
}


class Run:
    """One recorded program: its report, torch's profile of the same recording, and the live sizes at each step."""

    def __init__(self, program: Program, steps: int = 3) -> None:
        model_name, model_options, optimizer_name, optimizer_options, batches, is_none = program
        torch.manual_seed(0)
        self.model, batch = MODELS[model_name](**model_options)
        self.optimizer = OPTIMIZERS[optimizer_name](self.model.parameters(), **optimizer_options)
        self.live: list[dict[str, int]] = []
        kept: list[Any] = []
        with tp.profile(
            profile_memory=True, record_shapes=True, with_stack=True, warmup=2, active=steps, on_trace_ready=kept.append
        ) as p:
            for _ in range(steps + 2):
                for _ in range(batches):
                    x, y = batch()
                    loss = torch.nn.functional.cross_entropy(self.model(x), y)
                    loss.backward()
                self.optimizer.step()
                self.live.append(live_bytes(self.model, self.optimizer))
                self.optimizer.zero_grad(set_to_none=is_none)
                del x, y, loss
                p.step()
        self.report = p.report
        self.kineto = kept[0]


def live_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Return the bytes of the storages of the live objects."""
    parameters = list(model.parameters())
    state = [value for values in optimizer.state.values() for value in values.values() if torch.is_tensor(value)]
    groups = {
        "parameter": parameters,
        "buffer": list(model.buffers()),
        "gradient": [p.grad for p in parameters if p.grad is not None],
        "optimizer_state": state,
    }
    return {name: sum({t.data_ptr(): t.untyped_storage().nbytes() for t in ts}.values()) for name, ts in groups.items()}


def theirs(profile: MemoryProfile) -> tuple[np.ndarray, np.ndarray]:
    """Return the times and the bytes by category of torch's timeline, which hold from each time on."""
    level = dict.fromkeys(OURS, 0)
    times, levels = [], []
    categories = profile._categories  # noqa: SLF001 - there is no other way
    for time, action, (key, version), size in profile.timeline:
        if key.device.type != "cpu":
            continue
        name = THEIRS[categories.get(key, version)]
        if action in (Action.PREEXISTING, Action.CREATE):
            level[name] += size
        elif action == Action.INCREMENT_VERSION:
            level[name] -= size
            level[THEIRS[categories.get(key, version + 1)]] += size
        else:
            level[name] -= size
        times.append(time)
        levels.append(list(level.values()))
    return np.array(times), np.array(levels)


def best(measured: Callable[[], T]) -> tuple[float, T]:
    """Return the shortest time of three in seconds, and the result."""
    found = []
    for _ in range(3):
        began = perf_counter()
        result = measured()
        found.append(perf_counter() - began)
    return min(found), result


def mean(times: np.ndarray, levels: np.ndarray, start: float, end: float) -> np.ndarray:
    """Return the mean of step functions between two times."""
    clipped = np.clip(np.append(times, end), start, end)
    return (levels * np.diff(clipped)[:, None]).sum(axis=0) / (end - start)


def compare(name: str, program: Program, steps: int) -> None:
    """Print one row: the mean KiB of each category, ours and torch's, and how long each took."""
    run = Run(program, steps)
    trace = run.report.trace
    gc.collect()
    ours_s, frame = best(lambda: memory_frame(replace(trace)))  # a copy, for which nothing has been computed
    theirs_s, (times, levels) = best(lambda: theirs(MemoryProfile(run.kineto.profiler.kineto_results)))
    own_times = frame["time_ns"].to_numpy() + trace.meta.start_unix_ns
    own = frame.select(f"{category}_bytes" for category in OURS).to_numpy()
    kept = times >= own_times[0] - 1_000_000
    start, end = own_times[0], own_times[-1]
    a, b = mean(own_times, own, start, end) / 1024, mean(times[kept], levels[kept], start, end) / 1024
    at = np.searchsorted(times, own_times, side="right") - 1
    difference = np.unique(own.sum(axis=1) - levels[at].sum(axis=1))
    cells = "  ".join(f"{x:7.0f}/{y:<7.0f}" for x, y in zip(a, b, strict=True))
    print(f"{name:28s} {cells} {theirs_s / ours_s:5.0f}x ({ours_s * 1e3:.0f} ms) totals differ by {difference[:4]}")
    check_live(run)


def check_live(run: Run) -> None:
    """Print where the curve differs from the live objects after the last step of the optimizer of a step."""
    frame, events = run.report.memory, run.report.events
    ends = events.filter(events["name"].cast(str).str.starts_with("Optimizer.step#"))
    for end_ns, live in zip((ends["start_ns"] + ends["dur_ns"]).to_list(), run.live[2:], strict=True):
        row = frame.filter(frame["time_ns"] <= end_ns)[-1]
        for category, size in live.items():
            found = row[f"{category}_bytes"][0]
            if found != size:
                print(f"    {category} after a step: {found} instead of {size}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of the programs to run")
    parser.add_argument("--steps", type=int, default=3, help="to record; torch's time grows with them")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'mean KiB, ours/torch':28s} {'  '.join(f'{name:^15s}' for name in OURS)}")
    for name, program in PROGRAMS.items():
        if chosen.only in name:
            compare(name, program, chosen.steps)


if __name__ == "__main__":
    main()
