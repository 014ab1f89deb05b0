"""Do the changes that ``report.savings`` proposes save as much as it estimates?

    python benchmarks/savings.py [--programs MLP transformer conv+BN]

Each program is recorded, changed for real, and recorded again: checkpoints around all modules of a class and around
single ones, gradients set to None (at all, and before forward in place of after it), half the batch, and bfloat16 for
the state of the optimizer or for everything. Printed: the peak, the estimated and the measured saving, and how far the
estimate is off. That of bfloat16 for everything is the sum of the estimates for 16-bit parameters, gradients and
optimizer state and for half the batch, because activations become half as large as well.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable  # noqa: TC003 - the fields of a dataclass
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import torchprof_magic as tp

STEPS = 4


class Checkpointed(torch.nn.Module):
    """A module whose forward is computed again in backward."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result of the module."""
        result: torch.Tensor = checkpoint(self.module, x, use_reentrant=False)
        return result


class Perceptron(torch.nn.Module):
    """A residual block of two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the input and what the layers make of it."""
        result: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return result


class DecoderLayer(torch.nn.Module):
    """Causal attention and a perceptron, both with dropout."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result for inputs of the shape (batch, length, width), in the same shape."""
        batch, length, width = x.shape
        heads = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        result: torch.Tensor = x + self.dropout(self.mlp(self.mlp_norm(x)))
        return result


class Decoder(torch.nn.Module):
    """An embedding, layers, and a head."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(DecoderLayer(width, 4) for _ in range(layers))
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits of the shape (batch, length, words) for tokens of the shape (batch, length)."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        result: torch.Tensor = self.head(x)
        return result


class Residual(torch.nn.Module):
    """Two convolutions with BatchNorm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm, self.second_norm = torch.nn.BatchNorm2d(channels), torch.nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result for inputs of the shape (batch, channels, height, width), in the same shape."""
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(inner)))


def make_mlp() -> torch.nn.Module:
    """Return six residual blocks and a head."""
    return torch.nn.Sequential(*(Perceptron(128) for _ in range(6)), torch.nn.Linear(128, 10))


def make_transformer() -> torch.nn.Module:
    """Return a small decoder."""
    return Decoder(words=256, width=96, layers=4)


def make_convolutions() -> torch.nn.Module:
    """Return a small residual network."""
    return torch.nn.Sequential(
        torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()),
        torch.nn.Sequential(Residual(16), Residual(16)),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.Sequential(Residual(32), Residual(32)),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 10),
    )


def vectors(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and classes."""
    return torch.randn(batch, 128), torch.randint(10, (batch,))


def texts(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and the tokens that follow."""
    return torch.randint(256, (batch, 64)), torch.randint(256, (batch, 64))


def images(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and classes."""
    return torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))


@dataclass(frozen=True)
class Program:
    """A model with its batches, the optimizer, and the changes that can be made."""

    make: Callable[[], torch.nn.Module]
    batches: Callable[[int], tuple[torch.Tensor, torch.Tensor]]
    batch: int
    wrapped: str  # the class of the modules that get checkpoints
    single: str  # the path of one of them
    has_momentum: bool = False  # SGD with momentum, one parameter at a time, in place of Adam
    checkpointed: str = ""  # a class or a path
    is_none: bool = True
    is_late: bool = False  # whether gradients are released only after forward
    dtype: torch.dtype = torch.float32
    state_dtype: torch.dtype = torch.float32


PROGRAMS = {
    "MLP": Program(make_mlp, vectors, 512, "Perceptron", "1"),
    "transformer": Program(make_transformer, texts, 16, "DecoderLayer", "layers.1"),
    "conv+BN": Program(make_convolutions, images, 32, "Residual", "1.0"),
}


class Change(NamedTuple):
    """A change of a program, what it starts from, and which rows of ``report.savings`` foretell it."""

    before: Program
    after: Program
    rows: tuple[tuple[str, str | None], ...]


def changes(program: Program, count: int) -> dict[str, Change]:
    """Return the changes to try; ``count`` is the number of modules of the class that get checkpoints."""
    kept, late = replace(program, is_none=False), replace(program, is_late=True)
    momentum = replace(program, has_momentum=True)
    halves = ("lower_precision_parameters", "lower_precision_gradients", "lower_precision_optimizer_state")
    each, single = f"each of {count} {program.wrapped}", program.single
    half = torch.bfloat16
    return {
        f"checkpoints, {each}": Change(
            program, replace(program, checkpointed=program.wrapped), (("activation_checkpointing", each),)
        ),
        f"checkpoint, {single}": Change(
            program, replace(program, checkpointed=single), (("activation_checkpointing", single),)
        ),
        "set_to_none=True, not False": Change(kept, program, (("set_to_none", None),)),
        "gradients None before forward": Change(late, program, (("set_to_none", None),)),
        "half the batch": Change(program, replace(program, batch=program.batch // 2), (("smaller_batch", None),)),
        "bfloat16 momentum": Change(
            momentum, replace(momentum, state_dtype=half), (("lower_precision_optimizer_state", None),)
        ),
        "bfloat16 for everything": Change(
            program, replace(program, dtype=half), tuple((name, None) for name in (*halves, "smaller_batch"))
        ),
    }


def record(program: Program) -> tp.Report:
    """Return the report of some training steps, after one that makes the state of the optimizer."""
    torch.manual_seed(0)
    gc.collect()
    model = program.make()
    _wrap(model, "", program.checkpointed)
    model.to(program.dtype)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters())
    if program.has_momentum:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)

    def step() -> None:
        x, y = program.batches(program.batch)
        x = x.to(program.dtype) if x.is_floating_point() else x
        if not program.is_late:
            optimizer.zero_grad(set_to_none=program.is_none)
        found = model(x)
        loss = functional.cross_entropy(found.flatten(0, -2), y.flatten())
        if program.is_late:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    if program.state_dtype != torch.float32:
        for state in optimizer.state.values():
            state.update({name: value.to(program.state_dtype) for name, value in state.items() if value is not None})
    with tp.profile(profile_memory=True, with_modules=True) as p:
        for _ in p.steps(range(STEPS)):
            step()
    return p.report


def _wrap(parent: torch.nn.Module, path: str, wanted: str) -> None:
    """Put checkpoints around the modules of a class, or around that at a path."""
    for name, child in list(parent.named_children()):
        whole = f"{path}.{name}".removeprefix(".")
        if wanted in (type(child).__name__, whole):
            parent.register_module(name, Checkpointed(child))
        else:
            _wrap(child, whole, wanted)


def peak_bytes(report: tp.Report) -> int:
    """Return the highest total of the recording."""
    return int(report.memory["total_bytes"].to_numpy().max())


def estimated_bytes(report: tp.Report, rows: tuple[tuple[str, str | None], ...]) -> int:
    """Return the sum of some estimates; those that are below 1 % of the peak have no row and count as 0."""
    frame = report.savings
    return sum(
        int(frame.filter((pl.col("action") == action) & pl.col("module").eq_missing(module))["saved_bytes"].sum())
        for action, module in rows
    )


class Result(NamedTuple):
    """The peak before a change, and the saving as it was estimated and measured, in bytes."""

    peak: int
    estimated: int
    measured: int


def outcome(change: Change) -> Result:
    """Record a program before and after a change."""
    before, after = record(change.before), record(change.after)
    peak = peak_bytes(before)
    return Result(peak, estimated_bytes(before, change.rows), peak - peak_bytes(after))


def module_count(program: Program) -> int:
    """Return how many modules get checkpoints."""
    return sum(type(module).__name__ == program.wrapped for module in program.make().modules())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    print(f"{'program and change':<48} {'peak':>10} {'estimated':>10} {'measured':>10} {'off':>8}  (kB)")
    for name in parser.parse_args().programs:
        program = PROGRAMS[name]
        for title, change in changes(program, module_count(program)).items():
            peak, estimated, measured = outcome(change)
            off = f"{estimated / measured - 1:+.1%}" if abs(measured) >= peak / 100 else "-"
            print(
                f"{name + ': ' + title:<48} {peak / 1e3:10.1f} {estimated / 1e3:10.1f} {measured / 1e3:10.1f} {off:>8}"
            )


if __name__ == "__main__":
    main()
