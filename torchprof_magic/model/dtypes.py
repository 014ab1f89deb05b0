"""Types of elements: their sizes, and the kind of arithmetic that they stand for."""

from __future__ import annotations

import re
from functools import lru_cache

# The kinds of arithmetic that devices have a peak for, and what each is called.
KINDS = {
    "f64": "64-bit floating point",
    "f32": "32-bit floating point",
    "tf32": "TF32 (32-bit numbers, 19 bits of which are multiplied)",
    "bf16": "bfloat16",
    "f16": "16-bit floating point",
    "f8": "8-bit floating point",
    "f4": "4-bit floating point",
    "i8": "8-bit integers",
}
_SIZES = {
    "double": 8, "long": 8, "longint": 8, "complexfloat": 8, "complex<float>": 8, "uint64": 8, "f64": 8, "i64": 8,
    "complexdouble": 16, "complex<double>": 16, "float": 4, "int": 4, "uint32": 4, "f32": 4, "tf32": 4, "i32": 4,
    "half": 2, "bfloat16": 2, "short": 2, "shortint": 2, "uint16": 2, "bf16": 2, "f16": 2, "complexhalf": 4,
    "complex<half>": 4, "char": 1, "byte": 1, "bool": 1, "signedchar": 1, "unsignedchar": 1, "f8": 1, "i8": 1, "u8": 1,
}  # fmt: skip
# Types that are written with their format, such as Float8_e4m3fn; two of four bits share a byte.
_SMALL_FLOATS = ("float8", "float4")
_OF_BYTES = re.compile(r"([0-9]{1,2})-byte")
_KINDS = {
    "double": "f64", "float": "f32", "half": "f16", "bfloat16": "bf16", "complexfloat": "f32", "complex<float>": "f32",
    "complexdouble": "f64", "complex<double>": "f64", "char": "i8", "signedchar": "i8", "byte": "i8",
    "unsignedchar": "i8", "u8": "i8", "2-byte": "bf16", "4-byte": "f32",
}  # fmt: skip


def size_of_type(name: object) -> int:
    """Return the bytes of an element of a type, as torch or C++ name it; 0 if it is not known."""
    plain = _plain(name)
    if plain.startswith(_SMALL_FLOATS):
        return 1
    if found := _OF_BYTES.fullmatch(plain):
        return int(found[1])
    return _SIZES.get(plain, 0)


def kind_of_type(name: object) -> str:
    """Return the kind of arithmetic with a type, one of ``KINDS``; empty if it is not known, and for indices."""
    plain = _plain(name)
    if plain.startswith(_SMALL_FLOATS):
        return "f8" if plain.startswith("float8") else "f4"
    return plain if plain in KINDS else _KINDS.get(plain, "")


def is_floating(name: object) -> bool:
    """Return whether a type has fractions."""
    return kind_of_type(name) not in ("", "i8") or _plain(name).startswith("complex")


def _plain(name: object) -> str:
    return _plain_text(name) if isinstance(name, str) else ""


@lru_cache(maxsize=256)
def _plain_text(name: str) -> str:
    plain = name.lower().removeprefix("c10::").replace(" ", "").replace("c10::", "")
    return plain if plain.startswith(_SMALL_FLOATS) else plain.replace("_", "")
