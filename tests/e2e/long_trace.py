"""A GPU trace with so many slices that a page of a few hundred asks for windows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import annotation, chrome, frame, kernel, launch, span

if TYPE_CHECKING:
    from pathlib import Path

    from support import Event

STEPS = 6
STEP_US = 10_000
LAYERS = 60
LAYER_US = 150


def write_long_trace(path: Path) -> Path:
    """Write 6 steps of 60 layers, each two ops with a kernel, of which every tenth layer makes the device wait long."""
    events: list[Event] = []
    for step in range(STEPS):
        start = step * STEP_US
        events += [annotation(f"ProfilerStep#{step}", start, STEP_US), frame("train.py(3): main", start + 5, 9_900)]
        for layer in range(LAYERS):
            events += _layer(step, layer, start + 10 + layer * LAYER_US)
    path.write_bytes(chrome(*events, deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]))
    return path


def _layer(step: int, layer: int, at: float) -> list[Event]:
    call = 2 * (step * LAYERS + layer)
    late = 60 if layer % 10 == 0 else 0
    shapes = {"Input Dims": [[layer + 1, 64], [64, 256]], "Input type": ["float", "float"]}
    return [
        span(f"aten::op{layer % 7}", at, 140, **{"External id": call, **shapes}),
        span("aten::mm", at + 2, 50, **{"External id": call, **shapes}),
        launch(at + 5, 4, call),
        kernel(f"scale{layer % 5}_kernel", at + 12 + late, 30, call),
        span("aten::add", at + 60, 40, **{"External id": call + 1, **shapes}),
        launch(at + 65, 4, call + 1),
        kernel("add_kernel", at + 110, 8 + layer % 3, call + 1),
    ]
