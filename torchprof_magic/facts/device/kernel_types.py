"""The type of the numbers that a kernel works on, as its name says."""

from __future__ import annotations

import re

# What types are called in names. The lists that stand first decide, and in a list the one that is named first.
_FLOATS = (
    ("bf16", re.compile(r"BFloat16|bfloat16|bf16|DF16b|Cijk_\w{4}_\w{4}_B|nvjet_t")),
    (
        "f16",
        re.compile(
            r"\bHalf\b|__half|\bhalf_t\b|\bhalf\b|fp16|(?<!b)f16|_h[0-9]+gemm|hgemm|Cijk_\w{4}_\w{4}_H|h1688|nvjet_h"
        ),
    ),
    ("f8", re.compile(r"Float8|float8|fp8|_e4m3|_e5m2|Cijk_\w{4}_\w{4}_F8")),
    ("f64", re.compile(r"\bdouble\b|dgemm|_d[0-9]+gemm|_f64|Cijk_\w{4}_\w{4}_D")),
    ("tf32", re.compile(r"tf32")),
    ("f32", re.compile(r"\bfloat\b|fp32|sgemm|scudnn|(?<!t)f32|Cijk_\w{4}_\w{4}_S")),
)
_OTHERS = (
    ("opaque", re.compile(r"\bOpaqueType<([0-9]{1,3})u?>")),
    # Indices are unsigned.
    ("i64", re.compile(r"(?<!unsigned )\blong\b|(?<!u)int64")),
    ("i32", re.compile(r"(?<!unsigned )\bint\b|_i32")),
    ("u8", re.compile(r"unsigned char|uint8")),
    ("i8", re.compile(r"\bsigned char|(?<!u)int8")),
    ("bool", re.compile(r"\bbool\b")),
)
# Kernels for matrices say which type they add up in, of which that of the inputs does not always differ.
_SUMS = (("f32", re.compile(r"s[0-9]{3,5}(?:gemm|cudnn|fprop|dgrad|wgrad)")),)


def type_in(text: str) -> str:
    """Return the type that a name says, such as ``bf16``; a type of floating point before others; empty if none."""
    for types in (_FLOATS, _OTHERS, _SUMS):
        found = [(match.start(), kind, match) for kind, pattern in types if (match := pattern.search(text))]
        if found:
            _, kind, match = min(found, key=lambda each: each[0])
            return f"{match[1]}-byte" if kind == "opaque" else kind
    return ""
