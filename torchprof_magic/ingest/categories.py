"""What kind of event is this, whatever year and vendor wrote it?"""

from __future__ import annotations

import polars as pl

from torchprof_magic.trace import CATEGORY

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
STEP_PATTERN = r"^ProfilerStep#(\d+)$"


def classify(cat: pl.Series) -> pl.Series:
    """Return the category of each ``cat``; pids and tids say nothing reliable."""
    return cat.str.to_lowercase().replace_strict(_BY_CAT, default="other", return_dtype=pl.String).cast(CATEGORY)
