"""What kernels are called: the operation, the type and the tile, before how it is done."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.device.kernel_types import type_in
from torchprof_magic.facts.shared import device_rows, once_per_trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.model.trace import Trace

MAX_CHARS = 72
# More of a name is not looked at; what it does stands at its beginning.
READ_CHARS = 2_000
# Titles that are kept: the ranks of a job, and the runs of a session, run the same kernels.
KEPT_TITLES = 2_048
TRITON_CHARS = 44
MANGLED_NAMES = 2
_FORMS = (
    ("vectorized_elementwise_kernel", "vectorized"),
    ("vectorized_templated_elementwise_kernel", "vectorized"),
    ("unrolled_elementwise_kernel", "unrolled"),
    ("index_elementwise_kernel", "indexed"),
    ("elementwise_kernel_with_index", "by index"),
    ("legacy_elementwise_kernel", "strided"),
    ("elementwise_kernel_manual_unroll", "unrolled by hand"),
    ("elementwise_kernel", "strided"),
    ("reduce_kernel", "reduction"),
    ("multi_tensor_apply_kernel", "foreach"),
)
# The operation in the template arguments of a kernel of PyTorch, the first that is found.
_FUNCTORS = tuple(
    re.compile(pattern)
    for pattern in (
        # Kernels of foreach have the form of the operation, and then the operation itself.
        r"\b(?:Unary|Binary|Ternary)Op\w*Functor<[^<>]*>, (?:std::|at::native::)?(\w+)<",
        r"std::(plus|multiplies|minus|divides|negate)",
        r"\bCUDAFunctor(?:OnSelf|OnOther)?_(\w+)",
        r"\blaunch_(\w+?)\(",
        r"\bbinary_internal::(\w+?)Functor",
        r"\b(?!gpu_)(\w+?)_kernel(?:_impl|_cuda)",
        r"\b(\w+?)_cuda_(?:kernel|out)\b",
        r"\b(copy)_device_to_device\b",
        r"\b(\w+?)CUDAKernelImpl\b",
        r"\b(\w+?)_functor\b",
        r"\b(\w+?)Ops<",
        r"\b(?!AUnary|BUnary|Binary|Unary|Ternary|Pointwise)([A-Z]\w+?)Functor",
        r"\b(?!gpu_)(\w+?)_kernel\b",
    )
)
# What functors are called otherwise.
_WORDS = {
    "plus": "add", "multiplies": "mul", "minus": "sub", "divides": "div", "negate": "neg", "power": "pow",
    "direct copy": "copy", "fused adam math": "fused adam",
}  # fmt: skip
_POINTWISE = re.compile(r"\bPointwiseOp\w*Functor<")
_CONVERSION = re.compile(r"(?:(bfloat16|float16|half|float32|float)to)?(bfloat16|float16|half|float32|float) copy")
_SHORT_TYPES = {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "double": "f64"}
# The index type of a kernel stands before what it does, and the condition of ``where`` before the values.
_NO_TYPES = re.compile(r"^<(?:unsigned )?int, |(?<=lambda\()bool, ")
_TRITON = re.compile(r"triton_(poi|red|per|tem|spl|for|mm|bmm)_fused_(\w+?)(?:_([0-9]+))?(?:_0d[0-9cde]*)?$")
_TRITON_FORMS = {
    "poi": "pointwise", "red": "reduction", "per": "persistent reduction", "tem": "template", "spl": "split scan",
    "for": "foreach",
}  # fmt: skip
_SCALAR = re.compile(r"\b[AB]UnaryFunctor|\bCUDAFunctorOn(?:Self|Other)_")
_COPY = re.compile(r"(Memcpy \w+|Memset) \((\w+)(?: -> (\w+))?\)$")
# Where the memory of a copy on the host can lie. Copies of pageable memory are slow, and hold the host.
_HOST_MEMORY = ("Pageable", "Pinned")
_ATTENTION = re.compile(r"(?i)flash_(?:fwd|bwd)|flash_?attn|fmha|attention|_sdpa_")
_BACKWARD = re.compile(r"(?i)bwd|backward|bprop|fmha_cutlassB")
_FLASH_PART = re.compile(r"\bflash_(?:fwd|bwd)_(splitkv(?:_combine)?|combine|dot_do_o|convert_\w+?)_kernel\b")
_GEMM = re.compile(r"(?<!fb)(?:gemm|Gemm|GEMM)|Cijk_|cutlass_[0-9]+_|_tensorop_|\bnvjet_|[shd0-9]cudnn_")
_CONVOLUTION = re.compile(r"(?i)conv(?!ert)|cudnn|fprop|dgrad|wgrad|igemm_(?:fwd|bwd|wrw)_")
_WAYS = (
    ("weight grad", re.compile(r"(?i)wgrad|igemm_wrw_|bwd_?weight")),
    ("input grad", re.compile(r"(?i)dgrad|igemm_bwd_|bwd_?data")),
)
_TILE = re.compile(
    r"tilesize([0-9]+x[0-9]+(?:x[0-9]+)?)|MT([0-9]+x[0-9]+x[0-9]+)|GemmShapeI(Li[0-9]+ELi[0-9]+ELi[0-9]+)E|"
    r"(?<![0-9x])([0-9]{2,3}x[0-9]{1,3}(?:x[0-9]{1,3})?)(?![0-9x])"
)
_ARCHITECTURE = re.compile(r"\b(sm[0-9]+|ampere|volta|turing|hopper|maxwell|gfx[0-9a-f]+)(?=_|\b)")
_FAMILIES = (
    ("xmma", re.compile(r"xmma")),
    ("cutlass", re.compile(r"cutlass")),
    ("Tensile", re.compile(r"Cijk_")),
    ("nvjet", re.compile(r"\bnvjet_")),
    ("cublas", re.compile(r"cublas")),
    ("cudnn", re.compile(r"[shd0-9]cudnn")),
)
# How both factors of a product lie in memory.
_LAYOUT = re.compile(r"_([nt][nt])(?=_|$|>)")
# Kernels of cuDNN that are no products, by what they are called.
_CUDNN = (
    (re.compile(r"dgrad\w*_engine"), "conv input grad"),
    (re.compile(r"wgrad\w*_engine"), "conv weight grad"),
    (re.compile(r"bn_bw_"), "batch norm backward"),
    (re.compile(r"bn_fw_"), "batch norm forward"),
    (re.compile(r"nchwToNhwcKernel"), "NCHW to NHWC"),
    (re.compile(r"nhwcToNchwKernel"), "NHWC to NCHW"),
    (re.compile(r"winogradForward"), "conv winograd"),
)
_NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)(\w*)")
_NOISE = re.compile(r"\(anonymous namespace\)::|<unnamed>::|at::native::|c10::|at::cuda::|pytorch_flash::|\bvoid ")
# Functions that only run what their template arguments say.
_WRAPPER = re.compile(r"[\w:]*\b(?:Kernel2?|device_kernel)<(?=[A-Za-z_])")
# Types, numbers and references in mangled names, and the length of a name in them.
_MANGLED = re.compile(r"DF16[b_]|L[a-z]n?[0-9]+E|S[0-9A-Z]*_|([0-9]{1,4})|.")
_NO_WORDS = {"ck_tile", "kentry", "tensor_operation", "device", "native", "cuda", "kernel", "Kernel"}
_NUMBER = re.compile(r"(?<=[<, ])([0-9]{1,6})(?=[,>])")


@lru_cache(KEPT_TITLES)
def kernel_title(name: str) -> str:
    """Return a short name: what before how, such as ``mul bf16 · strided`` or ``gemm bf16 128x128x64 · xmma sm90``."""
    read = name[:READ_CHARS]
    for make in (_copy, _nccl, _triton, _attention, _cudnn, _gemm, _of_pytorch, _mangled, _plain):
        if title := make(read):
            return _cut(title, MAX_CHARS)
    return _cut(name, MAX_CHARS)


def kernel_titles(names: Iterable[str]) -> dict[str, str]:
    """Return the title of each name; two names never have the same."""
    titles: dict[str, str] = {}
    taken: dict[str, int] = {}
    for name in dict.fromkeys(names):
        title = kernel_title(name)
        if title in taken and (detail := _detail(name)) and f"{title} {detail}" not in taken:
            title = f"{title} {detail}"
        title = _numbered(title, taken)
        taken[title] = 1
        titles[name] = title
    return titles


def _numbered(title: str, taken: dict[str, int]) -> str:
    """Return the title, with the next free number if it is taken; ``taken`` keeps the last number of each."""
    if title not in taken:
        return title
    while f"{title} ({taken[title] + 1})" in taken:
        taken[title] += 1
    taken[title] += 1
    return f"{title} ({taken[title]})"


@once_per_trace
def titles_of(trace: Trace) -> dict[str, str]:
    """Return the title of every kernel in a trace, the one with the most time first, if it differs from its name."""
    if len(device_rows(trace)) == 0:
        return {}
    work = trace.events[device_rows(trace)]
    order = work.group_by("name").agg(pl.col("dur_ns").sum()).with_columns(pl.col("name").cast(pl.String))
    names = order.sort("dur_ns", "name", descending=[True, False])["name"].to_list()
    return {name: title for name, title in kernel_titles(names).items() if title != name}


def _copy(name: str) -> str:
    match = _COPY.match(name)
    if match is None:
        return ""
    places = [place.lower() for place in match.groups()[1:] if place in _HOST_MEMORY]
    return match[1] + (f" · {' to '.join(places)}" if places else "")


def _nccl(name: str) -> str:
    match = _NCCL.match(name)
    if match is None:
        return ""
    tail = re.sub(
        r"_{1,3}(?:nv|hip|rccl)_(?=bfloat)|(?<=[0-9])_t\b",
        "_",
        re.sub(r"(u?)int(?=[0-9])", lambda sign: sign[1] or "i", match[2]),
    )
    parts = [part for part in tail.split("_") if part]
    how = [part for part in parts if part.isupper()]
    rest = [_SHORT_TYPES.get(part, part.lower()) for part in parts if part not in how]
    if "Reduce" not in match[1]:
        # What only moves numbers is recorded as a sum.
        rest = [part for part in rest if part != "sum"]
    return " ".join(("nccl", match[1], *rest)) + (f" · {' '.join(how).lower()}" if how else "")


def _triton(name: str) -> str:
    match = _TRITON.match(name)
    if match is None:
        return ""
    form, ops, number = match.groups()
    if number is None and ops.isdigit():
        ops, number = "", ops
    words = ops.strip("_").replace("__", " ").replace("_", " ")
    if len(words) > TRITON_CHARS:
        words = f"{words[:TRITON_CHARS].rsplit(' ', 1)[0]} …"
    how = f"triton {_TRITON_FORMS.get(form, form)}" + (f" #{number}" if number else "")
    return f"{words} · {how}" if words else how


def _mangled(name: str) -> str:
    """Return the first names in a mangled name, whose classes say what it does."""
    if not name.startswith("_Z"):
        return ""
    found: list[str] = []
    at = len("_Z")
    while (match := _MANGLED.match(name, at)) and len(found) < MANGLED_NAMES:
        at = match.end() + int(match[1] or 0)
        word = name[match.end() : at]
        if re.fullmatch(r"[A-Za-z]\w{2,}", word) and not word.startswith("_GLOBAL__") and word not in _NO_WORDS:
            found.append(word)
    return " ".join(filter(None, (*found, type_in(name)))) if found else ""


def _attention(name: str) -> str:
    if not _ATTENTION.search(name):
        return ""
    way = "backward" if _BACKWARD.search(name) else "forward"
    kind = "flash attention" if re.search(r"(?i)flash", name) else "attention"
    part = _FLASH_PART.search(name)
    how = part[1] if part else "cudnn" if name.startswith("cudnn") else ""
    return " ".join(filter(None, (kind, way, type_in(name)))) + (f" · {how}" if how else "")


def _cudnn(name: str) -> str:
    bare = name.removeprefix("void ")
    if not bare.startswith("cudnn"):
        return ""
    head = re.split(r"[<(]", bare, maxsplit=1)[0].split("::")[-1]
    what = next((title for pattern, title in _CUDNN if pattern.match(head)), "")
    return " ".join(filter(None, (what, type_in(bare)))) + f" · {head}" if what else ""


def _gemm(name: str) -> str:
    head = name if name.startswith("_Z") or "cutlass" in name else re.split(r"[<(]", name, maxsplit=1)[0]
    if not _GEMM.search(head):
        return ""
    is_convolution = _CONVOLUTION.search(head) is not None
    way = next((way for way, pattern in _WAYS if pattern.search(head)), "") if is_convolution else ""
    what = " ".join(filter(None, ("conv" if is_convolution else "gemm", way, type_in(name), _tile_in(name))))
    family = next((family for family, pattern in _FAMILIES if pattern.search(name)), "")
    architecture, layout = _ARCHITECTURE.search(name), _LAYOUT.search(name)
    how = " ".join(filter(None, (family, architecture[1] if architecture else "", layout[1] if layout else "")))
    return f"{what} · {how}" if how else what


def _tile_in(name: str) -> str:
    tile = _TILE.search(name)
    size = next(filter(None, tile.groups()), "") if tile else ""
    return "x".join(re.findall(r"[0-9]+", size))


def _of_pytorch(name: str) -> str:
    form = next((form for key, form in _FORMS if re.search(rf"\b{key}\b", name)), "")
    if not form:
        return ""
    inside = _NO_TYPES.sub(lambda match: match[0][:1].strip("b"), name[name.find("<") :] if "<" in name else name)
    functor = next((match[1] for pattern in _FUNCTORS if (match := pattern.search(inside))), "")
    if not functor:
        return ""
    what, kind = _operation(functor), type_in(inside)
    if what in ("mul", "div") and _POINTWISE.search(inside):
        what = f"addc{what}"
    scalar = " with a number" if _SCALAR.search(inside) else ""
    if what.startswith("copy "):
        kind = ""  # it says which already
    return " ".join(filter(None, (what, kind))) + f"{scalar} · {form}"


def _operation(functor: str) -> str:
    """Return what a functor does in words."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", functor).replace("_", " ").lower().strip()
    words = re.sub(r" (?:kernel|cuda|functor)$|(?<=\w)functor$", "", words)
    if match := _CONVERSION.fullmatch(words):
        return f"copy {' to '.join(_SHORT_TYPES[each] for each in match.groups() if each)}"
    return _WORDS.get(words, words)


def _plain(name: str) -> str:
    bare = _NOISE.sub("", name)
    if match := _WRAPPER.match(bare):
        bare = bare[match.end() :]
    head = re.split(r"[<(]", bare, maxsplit=1)[0].strip()
    if head == bare or not head:
        return bare
    short, kind = head.split("::")[-1] or head, type_in(bare[len(head) :])
    return f"{_cut(short, MAX_CHARS - len(kind) - 1)} {kind}" if kind else short


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _detail(name: str) -> str:
    """Return the first number in the template arguments, which often is all that differs."""
    number = _NUMBER.search(name)
    return f"<{number[1]}>" if number else ""
