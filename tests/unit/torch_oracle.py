"""torch's own ``EventList`` for a trace file, made of the file's events by torch's own rules."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent, _filter_name, _rewrite_name

if TYPE_CHECKING:
    from pathlib import Path

_HOST = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function", "overhead")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")


def events_of_file(path: Path) -> EventList:
    """Return the tree of torch's events; ``_parse_kineto_results`` does the same with Kineto's records.

    Work and runtime calls are linked to ops by their external id. Kineto numbers threads otherwise than torch.
    """
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    found: list[tuple[FunctionEvent, str, Any]] = []
    for event in document["traceEvents"]:
        category = event.get("cat")
        if event.get("ph") != "X" or category not in (*_HOST, *_DEVICE) or _filter_name(event["name"]):
            continue
        found.append((_function_event(event, category), category, event.get("args", {}).get("External id")))
    ops = {number: made for made, category, number in found if category == "cpu_op"}
    for made, category, number in found:
        op = ops.get(number)
        if op is None or category in ("cpu_op", "user_annotation", "python_function", "overhead"):
            continue
        if category in ("kernel", "gpu_memcpy", "gpu_memset"):
            op.append_kernel(made.name, made.device_index, made.time_range.elapsed_us())
        elif category in ("cuda_runtime", "cuda_driver"):
            made.thread = op.thread
    events = EventList(
        sorted((made for made, _, _ in found), key=lambda made: [made.time_range.start, -made.time_range.end]),
        use_device="cuda",
    )
    events._build_tree()
    return events


def _function_event(event: dict[str, Any], category: str) -> FunctionEvent:
    arguments = event.get("args", {})
    is_torchs = category in ("cpu_op", "user_annotation", "python_function")
    # ns as torch has them, which a sum of us in float64 would round
    start_ns = round(event["ts"] * 1000)
    dims = [[] if any(isinstance(each, list) for each in dim) else dim for dim in arguments.get("Input Dims", [])]
    made = FunctionEvent(
        id=0,
        name=_rewrite_name(event["name"], with_wildcard=True),
        trace_name=event["name"],
        overload_name="",
        thread=("torch" if is_torchs else "kineto", event["pid"], event["tid"]),
        start_us=start_ns / 1000,
        end_us=(start_ns + round(event.get("dur", 0) * 1000)) / 1000,
        input_shapes=dims,
        stack=[],
        use_device="cuda",
        device_type=DeviceType.CUDA if category in _DEVICE else DeviceType.CPU,
        is_user_annotation=category in ("user_annotation", "gpu_user_annotation"),
    )
    made.is_python_function = category == "python_function"  # not all versions of torch have an argument for it
    return made
