"""What devices can do at most: the table, what users set, and what is measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from amount import IS_WHOLE
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError

import torchprof_magic as tp
from torchprof_magic.ipython.magics import TorchProfMagics
from torchprof_magic.model import peaks as model
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.report import peaks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHPROF_RUNS", str(tmp_path))
    before = dict(model.set_by_user), dict(model.measured)
    yield
    for known, was in zip((model.set_by_user, model.measured), before, strict=True):
        known.clear()
        known.update(was)


@pytest.fixture
def _measured_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure nothing, which takes seconds on all cores: the figures are these."""
    from torchprof_magic.trials import peak as trials  # noqa: PLC0415 - imports torch

    made = trials.MeasuredPeak({"f32": 1e11}, 1e10, threads=2, cores_ratio=1.0)
    monkeypatch.setattr(trials, "measure_cpu", lambda _seconds: made)


@pytest.mark.parametrize(
    ("name", "title", "bf16", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB SXM", 312, 2.039),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe", 312, 1.935),
        ("NVIDIA A100-PG509-200", "NVIDIA A100 40GB", 312, 1.555),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", 989.4, 3.35),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 756, 2.0),
        ("NVIDIA H200", "NVIDIA H200", 989.4, 4.8),
        ("NVIDIA H100 80GB HBM2e", "NVIDIA H100 PCIe", 756, 2.0),
        ("NVIDIA B200", "NVIDIA B200", 2250, 8.0),
        ("NVIDIA B300 SXM6 AC", "NVIDIA B300", 2250, 8.0),
        ("NVIDIA GB300", "NVIDIA GB300", 2500, 8.0),
        ("HL-225", "Intel Gaudi 2", 432, 2.45),
        ("NVIDIA A10G", "NVIDIA A10G", 70, 0.6),
        ("NVIDIA GeForce RTX 4090", "NVIDIA RTX 4090", 165.2, 1.008),
        ("AMD Instinct MI300X", "AMD Instinct MI300X", 1307.4, 5.3),
        ("AMD Instinct MI355X", "AMD Instinct MI355X", 2516.6, 8.0),
        ("AMD Instinct MI210", "AMD Instinct MI210", 181, 1.6),
        ("ARTEMIS", "MTIA 2i", 177, 0.2048),
    ],
)
def test_devices_are_known_by_the_names_that_drivers_give_them(
    name: str, title: str, bf16: float, memory: float
) -> None:
    peak = tp.peaks.of(name)
    assert peak is not None
    assert (peak.title, peak.matrix["bf16"], peak.memory) == (title, bf16, memory)


def test_an_old_device_computes_bfloat16_with_its_other_units() -> None:
    v100 = tp.peaks.of("Tesla V100-SXM2-32GB")
    assert v100 is not None
    assert v100.flops_per_s("f16", is_matrix=True) == 125e12
    assert v100.flops_per_s("bf16", is_matrix=True) == 15.7e12
    assert v100.flops_per_s("f64", is_matrix=False) == 7.8e12


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA H100 64GB HBM2",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A1000",
        "NVIDIA H1000",
        "GPU",
    ],
)
def test_parts_of_devices_those_of_laptops_and_others_are_unknown(name: str) -> None:
    assert tp.peaks.of(name) is None


def test_every_row_of_the_table_has_figures_and_a_source() -> None:
    for peak in model.PEAKS:
        assert peak.memory > 0
        assert peak.matrix
        assert len(peak.source) > len("datasheet")
        assert "://" not in peak.source
        assert set(peak.matrix) <= set(model.Peak.__dataclass_fields__) | {
            "f64",
            "f32",
            "tf32",
            "bf16",
            "f16",
            "f8",
            "f4",
            "i8",
        }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("AMD MI350X", "AMD Instinct MI350X"),
        ("AMD MI300A", "AMD Instinct MI300A"),
        ("AMD MI300X", "AMD Instinct MI300X"),
        ("AMD MI210X", "AMD Instinct MI210"),
        ("NVIDIA A100", "NVIDIA A100-SXM4-80GB"),
    ],
)
def test_figures_are_those_of_the_table_in_torch(theirs: str, ours: str) -> None:
    torch = pytest.importorskip("torch")
    found = pytest.importorskip("torch._inductor.analysis.device_info").lookup_device_info(theirs)
    peak = tp.peaks.of(ours)
    assert peak is not None
    kinds = {"f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8}
    for kind in kinds.keys() & peak.matrix.keys() - ({"i8"} if theirs == "AMD MI210X" else set()):
        assert peak.matrix[kind] == pytest.approx(found.tops[kinds[kind]], rel=0.002)
    assert peak.memory == pytest.approx(found.dram_bw_gbs / 1000, rel=0.002)


def test_a_report_says_of_figures_that_no_second_source_confirms_them() -> None:
    alone = {peak.title for peak in model.PEAKS if "no second source" in peak.origin}
    assert alone == {peak.title for peak in model.PEAKS if not peak.compared}
    assert alone == {"NVIDIA A30", "NVIDIA RTX 2080 Ti"}
    tp.peaks.add("A30", bytes_per_s=1e12)
    assert tp.peaks.of("NVIDIA A30").origin == "set by the user."  # type: ignore[union-attr]
    tp.peaks.remove("A30")


def test_users_change_figures_and_add_devices() -> None:
    tp.peaks.add("mi300x", bytes_per_s=4e12)
    peak = tp.peaks.of("AMD Instinct MI300X")
    assert peak is not None
    assert (peak.memory, peak.matrix["bf16"], peak.source) == (4.0, 1307.4, "set by the user")
    tp.peaks.configure({"My chip": {"flops_per_s": {"bf16": 2e12}, "bytes_per_s": 1e11}})
    assert next(peak.title for peak in tp.peaks.known()) == "My chip"
    assert tp.peaks.of("AMD Instinct MI300X").memory == 5.3  # type: ignore[union-attr]
    tp.peaks.remove("My chip")
    with pytest.raises(ValueError, match="no peak of 'My chip' was set"):
        tp.peaks.remove("My chip")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": {"flops_per_s": {"bf17": 1}}}, "no type 'bf17'"),
        ({"a": {"bytes_per_s": -1}}, "must be a positive number"),
        ({"a": {"bytes_per_s": True}}, "must be a positive number"),
        ({"a": {"flops_per_s": 3}}, "takes a dict of types and numbers"),
        ({"a": {"speed": 3}}, "each device takes a dict"),
        ({"a": 3}, "each device takes a dict"),
        ({"": {}}, "must be a text"),
    ],
)
def test_figures_that_make_no_sense_are_refused_and_change_nothing(values: dict[str, Any], message: str) -> None:
    tp.peaks.add("before", bytes_per_s=1e9)
    with pytest.raises(OptionsError, match=message):
        tp.peaks.configure(values)
    assert tp.peaks.of("it was before") is not None


def test_the_cpu_is_measured_and_known_to_later_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchprof_magic.trials import peak as trials  # noqa: PLC0415 - imports torch

    if not IS_WHOLE:  # large products take seconds on a busy machine
        monkeypatch.setattr(trials, "_SIDES", (128,))
    found = tp.measure_peak(0.2)
    assert found.path == tmp_path / "peaks.json"
    assert 1e8 < found.flops_per_s["f32"] < 1e15
    assert 1e8 < found.bytes_per_s < 1e13
    assert "GFLOP/s in f32" in str(found)
    model.measured.clear()
    peaks.read_kept.cache_clear()
    known = tp.peaks.of(found.device)
    assert known is not None
    assert known.bytes_per_s == pytest.approx(found.bytes_per_s)
    assert known.flops_per_s("f32", is_matrix=True) == pytest.approx(found.flops_per_s["f32"])


@pytest.mark.parametrize(("ran", "said"), [(0.5, True), (0.95, False)])
def test_a_peak_that_was_measured_beside_other_programs_says_that_it_is_too_low(
    monkeypatch: pytest.MonkeyPatch, ran: float, said: bool
) -> None:
    from torchprof_magic.trials import peak as trials  # noqa: PLC0415 - imports torch

    made = trials.MeasuredPeak({"f32": 1e11}, 1e10, threads=2, cores_ratio=ran)
    monkeypatch.setattr(trials, "measure_cpu", lambda _seconds: made)
    found = tp.measure_peak(0.1)
    assert ("ran 50 % of the time, as other programs took the cores: it is too low" in str(found)) == said
    kept = tp.peaks.of(found.device)
    assert kept is not None
    assert ("it is too low" in kept.origin) == said


@pytest.mark.parametrize("content", ["", "[", "[3]", '{"a": 3}', '{"a": {"bytes_per_s": "x"}}', '{"a": {}}'])
def test_a_damaged_file_of_measured_peaks_is_as_if_it_was_not_there(tmp_path: Path, content: str) -> None:
    (tmp_path / "peaks.json").write_text(content)
    peaks.read_kept.cache_clear()
    assert tp.peaks.of("a") is None


@pytest.mark.usefixtures("_measured_before")
def test_what_is_measured_takes_the_place_of_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "peaks.json").write_text("[")
    assert tp.measure_peak(0.1).device in json.loads((tmp_path / "peaks.json").read_text())


def test_measuring_needs_a_positive_time() -> None:
    with pytest.raises(OptionsError, match="seconds must be a positive number"):
        tp.measure_peak(0)


def test_the_configuration_of_the_magics_sets_peaks_for_all_reports() -> None:
    shell = InteractiveShell.instance()
    magics = TorchProfMagics(shell)
    magics.peaks = {"MI300X": {"bytes_per_s": 4e12}}
    peak = tp.peaks.of("AMD Instinct MI300X")
    assert peak is not None
    assert peak.memory == 4.0
    with pytest.raises(TraitError, match="no type 'bf17'"):
        magics.peaks = {"MI300X": {"flops_per_s": {"bf17": 1}}}
    assert tp.peaks.of("AMD Instinct MI300X") == peak


@pytest.mark.usefixtures("_measured_before")
def test_a_recording_that_does_not_say_its_cpu_has_no_peak_whatever_was_measured_here() -> None:
    model.measured.clear()
    assert tp.peaks.of("CPU") is None
    tp.measure_peak(0.1)
    assert tp.peaks.of("CPU") is None
