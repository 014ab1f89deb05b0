"""What kind of event is this, whatever year and vendor wrote it?"""

from __future__ import annotations

_BY_CAT = {
    "cpu_op": "cpu_op",
    "operator": "cpu_op",  # 2021
    "user_annotation": "user_annotation",
    "python_function": "python_function",
    "python_func": "python_function",
    "runtime": "runtime",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "hip_runtime": "runtime",
    "xpu_runtime": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "gpu_user_annotation": "gpu_user_annotation",
    "overhead": "overhead",
}
# The profiler's own span over the whole recording is not something that the program did.
OWN_SPAN = "own span"


def category_of(cat: object) -> str:
    """Return the category for a file's ``cat``; pids and tids say nothing reliable."""
    return OWN_SPAN if cat == "Trace" else _BY_CAT.get(str(cat).lower(), "other")
