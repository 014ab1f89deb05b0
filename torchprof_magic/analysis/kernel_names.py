"""What kernels are called: the operation, the type and the tile, before how it is done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.analysis.shared import once_per_trace
from torchprof_magic.model.trace import DEVICE_CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchprof_magic.model.trace import Trace

MAX_CHARS = 72
TRITON_CHARS = 44
MANGLED_NAMES = 4
_TYPES = (
    ("bf16", r"BFloat16|bfloat16|bf16|_BBS_"),
    ("f16", r"\bHalf\b|__half|\bhalf_t\b|\bhalf\b|fp16|f16f16|_h\d+gemm|hgemm|_HHS|_h1688"),
    ("f8", r"Float8|float8|_e4m3|_e5m2"),
    ("f64", r"\bdouble\b|dgemm|_f64|_DB\b"),
    ("tf32", r"tf32"),
    ("f32", r"\bfloat\b|sgemm|scudnn|_f32|_SB\b|s1688|s16816|f32"),
    ("i64", r"\blong\b|int64"),
    ("i32", r"\bint\b|_i32"),
    ("u8", r"unsigned char|uint8"),
    ("bool", r"\bbool\b"),
)
_FORMS = (
    ("vectorized_elementwise_kernel", "vectorized"),
    ("vectorized_templated_elementwise_kernel", "vectorized"),
    ("unrolled_elementwise_kernel", "unrolled"),
    ("index_elementwise_kernel", "indexed"),
    ("legacy_elementwise_kernel", "strided"),
    ("elementwise_kernel_manual_unroll", "unrolled by hand"),
    ("elementwise_kernel", "strided"),
    ("reduce_kernel", "reduction"),
    ("multi_tensor_apply_kernel", "foreach"),
)
# The operation in the template arguments of a kernel of PyTorch, the first that is found.
_FUNCTORS = (
    r"std::(plus|multiplies|minus|divides|negate)",
    r"CUDAFunctor(?:OnSelf|OnOther)?_(\w+)",
    r"launch_(\w+?)\(",
    r"binary_internal::(\w+?)Functor",
    r"\b(?!gpu_)(\w+?)_kernel(?:_impl|_cuda)+\b",
    r"\b(?!gpu_)(\w+?)_kernel_impl",
    r"(\w+?)_functor\b",
    r"(\w+?)Ops<",
    r"(?:\w+::)*(Fill|Copy|Lerp|Pow|Sqrt|Rsqrt|Compare|Foreach\w*|\w+OpList\w*|\w+OpScalar\w*|FusedAdam\w*|FusedSgd\w*)Functor",
    r"(?:\w+::)*(?!AUnary|BUnary|Binary|Unary)([A-Z]\w+?)Functor",
    r"\b(?!gpu_)(\w+?)_kernel\b",
)
# What functors are called otherwise.
_WORDS = {"plus": "add", "multiplies": "mul", "minus": "sub", "divides": "div", "negate": "neg", "direct copy": "copy"}
_TRITON = re.compile(r"triton_(poi|red|per|tem|spl|for|mm|bmm)_fused_(\w+?)(?:_(\d+))?$")
_TRITON_FORMS = {"poi": "pointwise", "red": "reduction", "per": "persistent reduction", "tem": "template"}
_SCALAR = r"\b[AB]UnaryFunctor"
_GEMM = re.compile(r"(?i)gemm|Cijk_|cutlass_\d+_|tensorop")
_TILE = re.compile(r"tilesize(\d+x\d+(?:x\d+)?)|MT(\d+x\d+x\d+)|(?<![\dx])(\d{2,3}x\d{1,3}(?:x\d{1,3})?)(?![\dx])")
_ARCHITECTURE = re.compile(r"\b(sm\d+|ampere|volta|turing|hopper|maxwell|gfx\w+)(?=_|\b)")
_FAMILIES = (("xmma", "xmma"), ("cutlass", "cutlass"), ("Cijk_", "Tensile"), ("cublas", "cublas"), ("scudnn", "cudnn"))
# How both factors of a product lie in memory.
_LAYOUT = re.compile(r"_([nt][nt])(?=_|$|>)")
# Kernels of cuDNN that are no products, by what they are called.
_CUDNN = (
    (r"dgrad\w*_engine", "conv input grad"),
    (r"wgrad\w*_engine", "conv weight grad"),
    (r"bn_bw_", "batch norm backward"),
    (r"bn_fw_", "batch norm forward"),
    (r"nchwToNhwcKernel", "NCHW to NHWC"),
    (r"nhwcToNchwKernel", "NHWC to NCHW"),
    (r"winogradForward(\w+?)(?:\d|$)", "conv winograd"),
)
_NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)(\w*)")
_NOISE = re.compile(r"\(anonymous namespace\)::|<unnamed>::|at::native::|c10::|at::cuda::|pytorch_flash::|\bvoid ")


def kernel_title(name: str) -> str:
    """Return a short name: what before how, such as ``mul bf16 · strided`` or ``gemm bf16 128x128x64 · xmma sm90``."""
    for make in (_nccl, _triton, _attention, _cudnn, _gemm, _of_pytorch, _mangled):
        if title := make(name):
            return title[:MAX_CHARS]
    return _plain(name)[:MAX_CHARS]


def kernel_titles(names: Iterable[str]) -> dict[str, str]:
    """Return the title of each name; two names never have the same."""
    titles: dict[str, str] = {}
    taken: dict[str, int] = {}
    for name in names:
        title = kernel_title(name)
        if title in taken and (detail := _detail(name)) and f"{title} {detail}" not in taken:
            title = f"{title} {detail}"
        if title in taken:
            taken[title] += 1
            title = f"{title} ({taken[title]})"
        taken[title] = 1
        titles[name] = title
    return titles


@once_per_trace
def titles_of(trace: Trace) -> dict[str, str]:
    """Return the title of every kernel in a trace, the one with the most time first, if it differs from its name."""
    work = trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))
    order = work.group_by("name").agg(pl.col("dur_ns").sum()).with_columns(pl.col("name").cast(pl.String))
    names = order.sort("dur_ns", "name", descending=[True, False])["name"].to_list()
    return {name: title for name, title in kernel_titles(names).items() if title != name}


def _type_in(text: str) -> str:
    found = [(match.start(), kind) for kind, pattern in _TYPES if (match := re.search(pattern, text))]
    return min(found)[1] if found else ""


def _nccl(name: str) -> str:
    match = _NCCL.match(name.replace("int8_t", "i8"))
    if match is None:
        return ""
    parts = [part for part in match[2].split("_") if part]
    how = [part for part in parts if part.isupper() or part == "LL128"]
    rest = [
        part.replace("float", "f32").replace("half", "f16").replace("bfloat16", "bf16").lower()
        for part in parts
        if part not in how
    ]
    return " ".join(("nccl", match[1], *rest)) + (f" · {' '.join(how).lower()}" if how else "")


def _triton(name: str) -> str:
    match = _TRITON.match(name)
    if match is None:
        return ""
    form, ops, number = match.groups()
    words = ops.strip("_").replace("__", " ").replace("_", " ")
    if len(words) > TRITON_CHARS:
        words = f"{words[:TRITON_CHARS].rsplit(' ', 1)[0]} …"
    return f"{words} · triton {_TRITON_FORMS.get(form, form)}" + (f" #{number}" if number else "")


def _mangled(name: str) -> str:
    """Return the first names in a mangled name, whose classes say what it does."""
    if not name.startswith("_Z"):
        return ""
    found: list[str] = []
    at = 0
    while (match := re.compile(r"\D*?(\d+)").match(name, at)) and len(found) < MANGLED_NAMES:
        at = match.end() + int(match[1])
        word = name[match.end() : at]
        if re.fullmatch(r"[A-Za-z]\w{2,}", word) and not word.startswith("_GLOBAL__"):
            found.append(word)
    return " ".join(found)


def _attention(name: str) -> str:
    if not re.search(r"(?i)flash_(fwd|bwd)|fmha|attention", name):
        return ""
    way = "backward" if re.search(r"(?i)bwd|backward", name) else "forward"
    kind = "flash attention" if re.search(r"(?i)flash", name) else "attention"
    part = re.search(r"flash_\w+?_(splitkv\w*|combine\w*|dot_do_o\w*|convert_\w+?)_kernel", name)
    return " ".join(filter(None, (kind, way, _type_in(name)))) + (f" · {part[1]}" if part else "")


def _cudnn(name: str) -> str:
    bare = name.removeprefix("void ")
    if not bare.startswith("cudnn"):
        return ""
    head = re.split(r"[<(]", bare, maxsplit=1)[0].split("::")[-1]
    what = next((title for pattern, title in _CUDNN if re.match(pattern, head)), "")
    return " ".join(filter(None, (what, _type_in(bare)))) + f" · {head}" if what else ""


def _gemm(name: str) -> str:
    is_convolution = re.search(r"(?i)conv|cudnn|fprop|dgrad|wgrad", name) is not None
    if not (_GEMM.search(name) or "scudnn" in name):
        return ""
    way = next((way for key, way in (("wgrad", "weight grad"), ("dgrad", "input grad")) if key in name), "")
    tile = _TILE.search(name)
    size = next(filter(None, tile.groups()), "") if tile else ""
    family = next((family for key, family in _FAMILIES if key in name), "")
    architecture = _ARCHITECTURE.search(name)
    what = " ".join(filter(None, ("conv" if is_convolution else "gemm", way, _type_in(name), size)))
    layout = _LAYOUT.search(name)
    how = " ".join(filter(None, (family, architecture[1] if architecture else "", layout[1] if layout else "")))
    return f"{what} · {how}" if how else what


def _of_pytorch(name: str) -> str:
    form = next((form for key, form in _FORMS if re.search(rf"\b{key}\b", name)), "")
    if not form:
        return ""
    inside = name[name.find("<") :] if "<" in name else name
    functor = next((match[1] for pattern in _FUNCTORS if (match := re.search(pattern, inside))), "")
    if not functor:
        return ""
    what = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", functor).replace("_", " ").lower().strip()
    what = re.sub(r" (?:kernel|cuda)$", "", what)
    what = _WORDS.get(what, re.sub(r"^(bfloat16|float16|half|float) (?=copy)", "", what))
    kind = _type_in(inside)
    scalar = " by a number" if re.search(_SCALAR, inside) else ""
    return " ".join(filter(None, (what, "" if kind and kind in what else kind))) + f"{scalar} · {form}"


def _plain(name: str) -> str:
    bare = _NOISE.sub("", name)
    head = re.split(r"[<(]", bare, maxsplit=1)[0].strip()
    if head == bare or not head:
        return bare or name
    short = head.split("::")[-1] or head
    kind = _type_in(bare[len(head) :])
    return f"{short} {kind}" if kind else short


def _detail(name: str) -> str:
    """Return the first number in the template arguments, which often is all that differs."""
    numbers = re.findall(r"(?<=[<, ])(\d+)(?=[,>])", name)
    return f"×{numbers[0]}" if numbers else ""
