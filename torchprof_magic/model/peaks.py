"""What devices can do at most: operations and bytes per second, as their makers say, dense (without sparsity).

One table, and what users set or measured in this process. A device that is in neither has no peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - of a field
from dataclasses import dataclass, field, replace

TERA = 10**12
SET_BY_USER = "set by the user"
# Other names of a device for which its figures do not hold: a part of it, or one for laptops.
_NOT_THE_SAME = re.compile(r"(?i)\bmig\b|laptop|mobile|max-q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """One device: ``pattern`` finds its name, ``title`` is what it is called, ``source`` where its figures are from.

    ``compared`` names a public table that has the same figures, as far as it has any; empty if none was found.
    ``matrix`` are the operations per second of units for matrices by type, ``vector`` those of other units, in 10^12;
    ``memory`` is how many 10^12 bytes per second its memory moves. ``note`` says of what they are.
    """

    title: str
    pattern: str
    matrix: Mapping[str, float] = field(default_factory=dict)
    vector: Mapping[str, float] = field(default_factory=dict)
    memory: float = 0.0
    source: str = ""
    compared: str = ""
    note: str = ""

    @property
    def origin(self) -> str:
        """Where its figures are from, and that nothing else was found to compare them with."""
        is_alone = bool(self.pattern) and not self.compared and self.source != SET_BY_USER
        said = f"{self.source}{', which no second source confirms' * is_alone}."
        return f"{self.note} {said}".strip()

    def flops_per_s(self, kind: str, *, is_matrix: bool) -> float:
        """Return the operations per second with a type, 0 if they are not known.

        A type that units for matrices do not know, and one without a type, is computed as 32-bit floating point.
        """
        if is_matrix and kind in self.matrix:
            return self.matrix[kind] * TERA
        found = self.vector.get("f64" if kind == "f64" else "f32", 0.0)
        return (found or (self.matrix.get("f32", 0.0) if is_matrix else 0.0)) * TERA

    @property
    def bytes_per_s(self) -> float:
        """The bytes per second of its memory, 0 if they are not known."""
        return self.memory * TERA


def _half(rate: float, **more: float) -> dict[str, float]:
    return {"f16": rate, "bf16": rate, **more}


# Public tables of others, with which the figures were compared.
_TORCH = "torch._inductor.analysis.device_info"
_LIGHTNING = "lightning.fabric.utilities.throughput"
_TITAN = "torchtitan.tools.utils"
_ENGINEERING = "stas00/ml-engineering, compute/accelerator"
_LOCKWOOD = "glennklockwood.com, processors"
_LLM_PROF = "citsjtu2020/LLM-Prof, hardware_spec.md"
_SPECS = "winston-zhang-orz/gpu-specs"
_HMC = "hmc-tech.com"
_QUOTED = "its white paper, as public repositories quote it"
_V100 = "NVIDIA V100 Tensor Core GPU, datasheet"
_A100 = "NVIDIA A100 Tensor Core GPU, datasheet"
_H100, _H200 = "NVIDIA H100 Tensor Core GPU, datasheet", "NVIDIA H200 Tensor Core GPU, datasheet"
_GH200 = "NVIDIA GH200 Grace Hopper Superchip, datasheet"
_B200 = "NVIDIA Blackwell, datasheet of HGX B200 and GB200 NVL72"
_B300 = "NVIDIA Blackwell Ultra, datasheet of HGX B300 and GB300 NVL72"
_ADA = "NVIDIA Ada GPU Architecture, white paper"
_AMPERE = "NVIDIA Ampere GA102 GPU Architecture, white paper"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture, white paper"
_RTX_PRO = "NVIDIA RTX Blackwell PRO GPU Architecture, white paper"
_ACCUMULATES = "16-bit products that are added up with 32 bits."
_DIE = "Of one of its two dies: each is a device of its own."
_H100_MATRIX = _half(989.4, tf32=494.7, f8=1978.9, i8=1978.9, f64=67)
_H100_VECTOR = {"f32": 67.0, "f64": 34.0}
_A100_MATRIX = _half(312, tf32=156, i8=624, f64=19.5)
_A100_VECTOR = {"f32": 19.5, "f64": 9.7}

# The first that fits a name is meant.
PEAKS: tuple[Peak, ...] = (
    Peak(
        title="NVIDIA V100 PCIe",
        pattern=r"\bV100-PCIE",
        matrix={"f16": 112},
        vector={"f32": 14, "f64": 7},
        memory=0.9,
        source=_V100,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA V100S",
        pattern=r"\bV100S",
        matrix={"f16": 130},
        vector={"f32": 16.4, "f64": 8.2},
        memory=1.134,
        source=_V100,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA V100",
        pattern=r"\bV100\b",
        matrix={"f16": 125},
        vector={"f32": 15.7, "f64": 7.8},
        memory=0.9,
        source=_V100,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA T4",
        pattern=r"\bT4\b",
        matrix={"f16": 65, "i8": 130},
        vector={"f32": 8.1},
        memory=0.32,
        source="NVIDIA T4 Tensor Core GPU, datasheet",
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA A100 80GB PCIe",
        pattern=r"\bA[18]00[- ](?:80GB[- ]PCIe|PCIE-80GB)",
        matrix=_A100_MATRIX,
        vector=_A100_VECTOR,
        memory=1.935,
        source=_A100,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA A100 80GB SXM",
        pattern=r"\bA[18]00-SXM4?-80GB",
        matrix=_A100_MATRIX,
        vector=_A100_VECTOR,
        memory=2.039,
        source=_A100,
        compared=_TORCH,
    ),
    Peak(
        title="NVIDIA A100 40GB",
        pattern=r"\bA[18]00\b(?!.*(?:64|80) ?GB)",
        matrix=_A100_MATRIX,
        vector=_A100_VECTOR,
        memory=1.555,
        source=_A100,
        compared=_LOCKWOOD,
    ),
    Peak(
        title="NVIDIA A30",
        pattern=r"\bA30\b",
        matrix=_half(165, tf32=82, i8=330, f64=10.3),
        vector={"f32": 10.3, "f64": 5.2},
        memory=0.933,
        source="NVIDIA A30 Tensor Core GPU, datasheet",
    ),
    Peak(
        title="NVIDIA A10G",
        pattern=r"\bA10G\b",
        matrix=_half(70, tf32=35, i8=140),
        vector={"f32": 35},
        memory=0.6,
        source="NVIDIA A10G Tensor Core GPU for AWS, datasheet",
        compared="its datasheet, as public repositories quote it",
    ),
    Peak(
        title="NVIDIA A10",
        pattern=r"\bA10\b",
        matrix=_half(125, tf32=62.5, i8=250),
        vector={"f32": 31.2},
        memory=0.6,
        source="NVIDIA A10 Tensor Core GPU, datasheet",
        compared=_SPECS,
    ),
    Peak(
        title="NVIDIA A40",
        pattern=r"\bA40\b",
        matrix=_half(149.7, tf32=74.8, i8=299.3),
        vector={"f32": 37.4},
        memory=0.696,
        source="NVIDIA A40, datasheet",
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA RTX A6000",
        pattern=r"\bRTX A6000\b",
        matrix=_half(154.8, tf32=77.4, i8=309.7),
        vector={"f32": 38.7},
        memory=0.768,
        source=_AMPERE,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA L4",
        pattern=r"\bL4\b",
        matrix=_half(121, tf32=60, f8=242.5, i8=242.5),
        vector={"f32": 30.3},
        memory=0.3,
        source="NVIDIA L4 Tensor Core GPU, datasheet",
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA L40S",
        pattern=r"\bL40S\b",
        matrix=_half(362, tf32=183, f8=733, i8=733),
        vector={"f32": 91.6},
        memory=0.864,
        source="NVIDIA L40S, datasheet",
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA L40",
        pattern=r"\bL40\b",
        matrix=_half(181, tf32=90.5, f8=362, i8=362),
        vector={"f32": 90.5},
        memory=0.864,
        source="NVIDIA L40, datasheet",
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA H100 PCIe",
        pattern=r"\bH[18]00[- ]PCIe|\bH[18]00 80GB HBM2e",
        matrix=_half(756, tf32=378, f8=1513, i8=1513, f64=51),
        vector={"f32": 51, "f64": 26},
        memory=2.0,
        source=_H100,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA H100 NVL",
        pattern=r"\bH100 NVL\b",
        matrix=_half(835.5, tf32=417.5, f8=1670.5, i8=1670.5, f64=60),
        vector={"f32": 60, "f64": 30},
        memory=3.9,
        source=_H100,
        compared=_TITAN,
    ),
    Peak(
        title="NVIDIA GH200 144GB",
        pattern=r"\bGH200 144GB",
        matrix=_H100_MATRIX,
        vector=_H100_VECTOR,
        memory=4.9,
        source=_GH200,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA GH200",
        pattern=r"\bGH200\b",
        matrix=_H100_MATRIX,
        vector=_H100_VECTOR,
        memory=4.0,
        source=_GH200,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA H100 SXM",
        pattern=r"\bH[18]00\b(?!.*(?:64|96) ?GB)",
        matrix=_H100_MATRIX,
        vector=_H100_VECTOR,
        memory=3.35,
        source=_H100,
        compared=_TORCH,
    ),
    Peak(
        title="NVIDIA H200 NVL",
        pattern=r"\bH200 NVL\b",
        matrix=_half(835.5, tf32=417.5, f8=1670.5, i8=1670.5, f64=60),
        vector={"f32": 60, "f64": 30},
        memory=4.8,
        source=_H200,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA H200",
        pattern=r"\bH200\b",
        matrix=_H100_MATRIX,
        vector=_H100_VECTOR,
        memory=4.8,
        source=_H200,
        compared=_LIGHTNING,
    ),
    Peak(
        title="NVIDIA H20 141GB",
        pattern=r"\bH20(?:-3e|.*141 ?GB)",
        matrix=_half(148, tf32=74, f8=296, i8=296, f64=1),
        vector={"f32": 44, "f64": 1},
        memory=4.8,
        source="NVIDIA HGX H20, as resellers list it",
        compared=_LLM_PROF,
    ),
    Peak(
        title="NVIDIA H20",
        pattern=r"\bH20\b",
        matrix=_half(148, tf32=74, f8=296, i8=296, f64=1),
        vector={"f32": 44, "f64": 1},
        memory=4.0,
        source="NVIDIA HGX H20, as resellers list it",
        compared=_LLM_PROF,
    ),
    Peak(
        title="NVIDIA GB200",
        pattern=r"\bGB200\b",
        matrix=_half(2500, tf32=1250, f8=5000, f4=10000, i8=5000, f64=40),
        vector={"f32": 80, "f64": 40},
        memory=8.0,
        source=_B200,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA GB300",
        pattern=r"\bGB300\b",
        matrix=_half(2500, tf32=1250, f8=5000, f4=15000, f64=1.3),
        vector={"f32": 80, "f64": 1.3},
        memory=8.0,
        source=_B300,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA B300",
        pattern=r"\bB300\b",
        matrix=_half(2250, tf32=1125, f8=4500, f4=13500, f64=1.25),
        vector={"f32": 75, "f64": 1.25},
        memory=8.0,
        source=_B300,
        compared=_LOCKWOOD,
        note="Sources have 12,600 to 14,000 for f4.",
    ),
    Peak(
        title="NVIDIA B200",
        pattern=r"\bB200\b",
        matrix=_half(2250, tf32=1125, f8=4500, f4=9000, i8=4500, f64=37),
        vector={"f32": 75, "f64": 37},
        memory=8.0,
        source=_B200,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA B100",
        pattern=r"\bB100\b",
        matrix=_half(1750, tf32=875, f8=3500, f4=7000, i8=3500, f64=30),
        vector={"f32": 60, "f64": 30},
        memory=8.0,
        source=_B200,
        compared=_ENGINEERING,
    ),
    Peak(
        title="NVIDIA RTX PRO 6000 Blackwell",
        pattern=r"\bRTX PRO 6000\b",
        matrix=_half(503.8, tf32=251.9, f8=1007.6, f4=2015.2, i8=1007.6),
        vector={"f32": 126},
        memory=1.792,
        source=_RTX_PRO,
        compared=_HMC,
    ),
    Peak(
        title="NVIDIA RTX 6000 Ada",
        pattern=r"\bRTX 6000 Ada\b",
        matrix=_half(364.2, tf32=182.1, f8=728.5, i8=728.5),
        vector={"f32": 91.1},
        memory=0.96,
        source=_ADA,
        compared=_QUOTED,
    ),
    Peak(
        title="NVIDIA RTX 5090",
        pattern=r"\bRTX 5090\b",
        matrix=_half(209.5, tf32=104.8, f8=419, f4=1676, i8=838),
        vector={"f32": 104.8},
        memory=1.792,
        source=_RTX_BLACKWELL,
        compared=_QUOTED,
        note=_ACCUMULATES,
    ),
    Peak(
        title="NVIDIA RTX 5080",
        pattern=r"\bRTX 5080\b",
        matrix=_half(112.6, tf32=56.3, f8=225.1, f4=900.4, i8=450.2),
        vector={"f32": 56.3},
        memory=0.96,
        source=_RTX_BLACKWELL,
        compared=_QUOTED,
        note=_ACCUMULATES,
    ),
    Peak(
        title="NVIDIA RTX 4090",
        pattern=r"\bRTX 4090\b(?! D)",
        matrix=_half(165.2, tf32=82.6, f8=330.3, i8=660.6),
        vector={"f32": 82.6},
        memory=1.008,
        source=_ADA,
        compared=_HMC,
        note=_ACCUMULATES,
    ),
    Peak(
        title="NVIDIA RTX 4080",
        pattern=r"\bRTX 4080\b(?! SUPER)",
        matrix=_half(97.5, tf32=48.7, f8=194.9, i8=389.9),
        vector={"f32": 48.7},
        memory=0.717,
        source=_ADA,
        compared=_LIGHTNING,
        note=_ACCUMULATES,
    ),
    Peak(
        title="NVIDIA RTX 3090",
        pattern=r"\bRTX 3090\b(?! Ti)",
        matrix=_half(71, tf32=35.6, i8=284),
        vector={"f32": 35.6},
        memory=0.936,
        source=_AMPERE,
        compared=_LIGHTNING,
        note=_ACCUMULATES,
    ),
    Peak(
        title="NVIDIA RTX 3080",
        pattern=r"\bRTX 3080\b(?! Ti)",
        matrix=_half(59.5, tf32=29.8, i8=238),
        vector={"f32": 29.8},
        memory=0.76,
        source=_AMPERE,
        compared=_LIGHTNING,
        note=_ACCUMULATES,
    ),
    Peak(
        title="NVIDIA RTX 2080 Ti",
        pattern=r"\bRTX 2080 Ti\b",
        matrix={"f16": 53.8, "i8": 215.2},
        vector={"f32": 13.4},
        memory=0.616,
        source="NVIDIA Turing GPU Architecture, white paper",
        note=f"{_ACCUMULATES} At reference clocks; the Founders Edition has 6 % more.",
    ),
    Peak(
        title="AMD Instinct MI355X",
        pattern=r"\bMI355X?\b",
        matrix=_half(2516.6, f8=5033.2, f4=10066.3, i8=5033.2, f32=157.3, f64=78.6),
        vector={"f32": 157.3, "f64": 78.6},
        memory=8.0,
        source="AMD Instinct MI355X, datasheet",
        compared=_ENGINEERING,
    ),
    Peak(
        title="AMD Instinct MI350X",
        pattern=r"\bMI350X?\b",
        matrix=_half(2306.9, f8=4613.7, f4=9227.5, i8=4613.7, f32=144.2, f64=72.1),
        vector={"f32": 144.2, "f64": 72.1},
        memory=8.0,
        source="AMD Instinct MI350X, datasheet",
        compared=_TORCH,
    ),
    Peak(
        title="AMD Instinct MI325X",
        pattern=r"\bMI325X?\b",
        matrix=_half(1307.4, tf32=653.7, f8=2614.9, i8=2614.9, f32=163.4, f64=163.4),
        vector={"f32": 163.4, "f64": 81.7},
        memory=6.0,
        source="AMD Instinct MI325X, datasheet",
        compared=_ENGINEERING,
    ),
    Peak(
        title="AMD Instinct MI300A",
        pattern=r"\bMI300A\b",
        matrix=_half(980.6, tf32=490.3, f8=1961.2, i8=1961.2, f32=122.6, f64=122.6),
        vector={"f32": 122.6, "f64": 61.3},
        memory=5.3,
        source="AMD Instinct MI300A, datasheet",
        compared=_TORCH,
    ),
    Peak(
        title="AMD Instinct MI300X",
        pattern=r"\bMI300X\b",
        matrix=_half(1307.4, tf32=653.7, f8=2614.9, i8=2614.9, f32=163.4, f64=163.4),
        vector={"f32": 163.4, "f64": 81.7},
        memory=5.3,
        source="AMD Instinct MI300X, datasheet",
        compared=_TORCH,
    ),
    Peak(
        title="AMD Instinct MI250X",
        pattern=r"\bMI250X\b",
        matrix=_half(191.5, i8=191.5, f32=47.9, f64=47.9),
        vector={"f32": 23.9, "f64": 23.9},
        memory=1.6,
        source="AMD Instinct MI250X, datasheet",
        compared=_ENGINEERING,
        note=_DIE,
    ),
    Peak(
        title="AMD Instinct MI250",
        pattern=r"\bMI250\b",
        matrix=_half(181, i8=181, f32=45.3, f64=45.3),
        vector={"f32": 22.6, "f64": 22.6},
        memory=1.6,
        source="AMD Instinct MI250, datasheet",
        compared=_ENGINEERING,
        note=_DIE,
    ),
    Peak(
        title="AMD Instinct MI210",
        pattern=r"\bMI210\b",
        matrix=_half(181, i8=181, f32=45.3, f64=45.3),
        vector={"f32": 22.6, "f64": 22.6},
        memory=1.6,
        source="AMD Instinct MI210, datasheet",
        compared=_TORCH,
    ),
    Peak(
        title="AMD Instinct MI100",
        pattern=r"\bMI100\b",
        matrix={"f16": 184.6, "bf16": 92.3, "i8": 184.6, "f32": 46.1},
        vector={"f32": 23.1, "f64": 11.5},
        memory=1.229,
        source="AMD Instinct MI100, brochure",
        compared="AMD CDNA 2 Architecture, white paper",
    ),
    Peak(
        title="Intel Gaudi 3",
        pattern=r"(?i)\bgaudi ?3|\bHL-3[0-9]{2}",
        matrix={"bf16": 1677, "f16": 459, "tf32": 459, "f8": 1677, "f32": 229},
        memory=3.7,
        source="Intel Gaudi 3 AI Accelerator, white paper",
        compared=_ENGINEERING,
        note="At the 1.6 GHz at which it runs; its white paper has 1,835 for bf16, at 1.75 GHz.",
    ),
    Peak(
        title="Intel Gaudi 2",
        pattern=r"(?i)\bgaudi ?2|\bHL-2[0-9]{2}",
        matrix={"bf16": 432, "f8": 865},
        memory=2.45,
        source="Intel Gaudi 2 AI Accelerator, product brief",
        compared=_ENGINEERING,
    ),
    Peak(
        title="MTIA 2i",
        pattern=r"(?i)\bartemis\b|\bMTIA ?(?:v2|2i?)\b",
        matrix=_half(177, i8=354),
        vector={"f32": 2.76},
        memory=0.2048,
        source="Meta, Our next generation Meta Training and Inference Accelerator (2024)",
        compared="techpowerup.com, news of April 2024",
    ),
    Peak(
        title="MTIA v1",
        pattern=r"(?i)\bMTIA ?(?:v1|1)\b",
        matrix={"f16": 51.2, "i8": 102.4},
        vector={"f32": 1.6},
        memory=0.176,
        source="Meta, MTIA v1: our first-generation AI inference accelerator (2023)",
        compared="meups.com.br, news of April 2024",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a user says of devices, in place of the table: operations per second by type, and bytes per second."""

    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    vector_flops_per_s: Mapping[str, float] = field(default_factory=dict)
    bytes_per_s: float | None = None


# What a processor is called where a recording does not say which it is.
CPU = "CPU"
# What users set, by a part of the name, and what was measured, by the name of the processor: these come first.
set_by_user: dict[str, Figures] = {}
measured: dict[str, Peak] = {}


def peak_of(name: str) -> Peak | None:
    """Return the peak of a device by its name, or of a processor; None if it is not known."""
    known = measured.get(name) or _in_table(name)
    for part, figures in set_by_user.items():
        if part.lower() in name.lower():
            known = with_figures(known or Peak(title=name, pattern=""), figures)
    return known


def _in_table(name: str) -> Peak | None:
    if not name or _NOT_THE_SAME.search(name):
        return None
    return next((peak for peak in PEAKS if re.search(peak.pattern, name)), None)


def with_figures(peak: Peak, figures: Figures) -> Peak:
    """Return a peak with the figures that a user set in place of its own."""
    matrix = {kind: rate / TERA for kind, rate in figures.flops_per_s.items()}
    vector = {kind: rate / TERA for kind, rate in figures.vector_flops_per_s.items()}
    return replace(
        peak,
        matrix={**peak.matrix, **matrix},
        vector={**peak.vector, **vector},
        memory=peak.memory if figures.bytes_per_s is None else figures.bytes_per_s / TERA,
        source=SET_BY_USER,
    )
