"""The category of an event, whatever torch version or vendor wrote it."""

from __future__ import annotations

from torchprof_magic.model.vendors import NO_WORK_CATEGORIES, RANGE_CATEGORIES, RUNTIME_CATEGORIES, WORK_CATEGORIES

_BY_CAT = {
    "cpu_op": "cpu_op",
    "operator": "cpu_op",  # torch of 2021
    "user_annotation": "user_annotation",
    "python_function": "python_function",
    "python_func": "python_function",
    "runtime": "runtime",
    **dict.fromkeys(RUNTIME_CATEGORIES, "runtime"),
    **dict.fromkeys(RANGE_CATEGORIES, "user_annotation"),
    "kernel": "kernel",
    **dict.fromkeys(WORK_CATEGORIES, "kernel"),
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "gpu_user_annotation": "gpu_user_annotation",
    "overhead": "overhead",
    **dict.fromkeys((*NO_WORK_CATEGORIES, "other"), "other"),
}
# The category of the profiler's own span over the whole recording, which is not part of the program.
OWN_SPAN = "own span"


def category_of(cat: object) -> str:
    """Return the category for the ``cat`` in a file. Process and thread ids are not reliable enough to tell."""
    return OWN_SPAN if cat == "Trace" else _BY_CAT.get(str(cat).lower(), "other")


def is_known(cat: str) -> bool:
    """Return whether the ``cat`` in a file is one of Kineto or of a vendor."""
    return cat.lower() in _BY_CAT
