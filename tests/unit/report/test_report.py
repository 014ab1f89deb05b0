from __future__ import annotations

import base64
import gzip
import io
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from support import allocation, annotation, chrome, kernel, launch, make_trace, span

import torchprof_magic
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.shapes import count_rows
from torchprof_magic.render import arrow
from torchprof_magic.render.arrow import MAX_SERIES_ROWS, encode, pack
from torchprof_magic.render.figures import to_png
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABS

HOSTILE = "</script><img src=x onerror=alert(1)>"


def report() -> Report:
    return Report(
        make_trace(
            annotation("ProfilerStep#2", 0, 100),
            span("aten::mm", 5, 60),
            launch(10, 2, correlation=1),
            kernel("gemm", 20, 70, correlation=1),
            span(HOSTILE, 70, 5),
            allocation(12, 512, 512),
        )
    )


def test_every_view_has_a_header_with_the_right_places_of_its_columns() -> None:
    shapes, page = report()._analysis, report()._forms.page
    header = json.loads(page.header)
    trace = report().trace
    there = [view for view in TABS if not view.is_live and (view.is_there is None or view.is_there(trace))]
    shown = [view.name for view in there if view.place == "about" or count_rows(shapes[view.name])]
    assert [view["name"] for view in header["views"]] == shown
    for view in header["views"]:
        if view["shape"] == "waiting":
            continue
        rows = count_rows(shapes[view["name"]])
        assert bool(view["empty"]) == (rows == 0)
        if rows == 0 or "offset" not in view:
            continue
        assert view["offset"] % 8 == 0
        frame = pl.read_ipc_stream(io.BytesIO(page.data[view["offset"] : view["offset"] + view["length"]]))
        assert frame.height == rows
        assert {column["name"] for column in view.get("columns", ())} <= set(frame.columns)
        assert all(f"total_{weight['name']}" in frame.columns for weight in view.get("weights", ()))


def test_times_go_to_the_page_as_float64_and_names_as_dictionaries() -> None:
    frame = pl.read_ipc_stream(io.BytesIO(encode(report()._analysis["ops"])))
    assert frame.schema["self_cpu_ns"] == pl.Float64
    assert isinstance(frame.schema["name"], pl.Categorical)
    assert dict(frame.select(pl.col("name").cast(pl.String), "self_cpu_ns").rows())["aten::mm"] == 60_000


def test_large_views_are_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    big = report()._analysis["memory"]
    most = 100_000
    monkeypatch.setattr(arrow, "EMBEDDED_BYTES", most)
    rows = most // 40
    ops = report()._analysis["ops"]
    wide = pl.concat([ops.frame] * (rows // ops.frame.height + 1))
    shapes = {"memory": big, "ops": type(ops)(frame=wide, columns=ops.columns)}  # type: ignore[call-arg, union-attr]
    packed = pack(shapes)
    assert packed.places["ops"][0] == -1
    assert len(packed.pulled["ops"]()) > most
    assert packed.places["memory"][0] == 0


def test_a_view_that_is_built_on_request_comes_with_its_header() -> None:
    page = report()._forms.page
    waiting = [view["name"] for view in json.loads(page.header)["views"] if view["shape"] == "waiting"]
    assert "ops_phase" in waiting
    data = page.pulled["ops_phase"]()
    size = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + size])
    assert (header["shape"], (4 + size) % 8) == ("table", 0)
    frame = pl.read_ipc_stream(io.BytesIO(data[4 + size :]))
    assert {column["name"] for column in header["columns"]} <= set(frame.columns)


def test_a_file_has_no_view_that_must_be_requested(tmp_path: Path) -> None:
    text = report().to_html(tmp_path / "report.html").read_text()
    (header,) = re.findall(r'id="header">(.*?)</script>', text)
    assert {view["shape"] for view in json.loads(header)["views"]} == {
        *("facts", "slices", "table", "tree", "series", "problems")
    }


def test_a_long_series_is_thinned_without_losing_its_peak() -> None:
    trace = make_trace(
        *[allocation(at, 1, 10**9 if at == 70_001 else at, device=1) for at in range(3 * MAX_SERIES_ROWS + 20_000)]
    )
    frame = pl.read_ipc_stream(io.BytesIO(encode(Report(trace)._analysis["memory"])))
    assert frame.height <= MAX_SERIES_ROWS
    assert frame["allocated_bytes"].max() == 10**9
    assert frame["time_ns"].is_sorted()


def test_the_html_file_holds_the_report_with_all_names_escaped(tmp_path: Path) -> None:
    text = report().to_html(tmp_path / "report.html").read_text()
    assert HOSTILE not in text
    assert "connect-src" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)\s*=\s*["']?https?:""", text)
    (data,) = re.findall(r'id="data">([^<]*)<', text)
    (header,) = re.findall(r'id="header">(.*?)</script>', text)
    views = {view["name"]: view for view in json.loads(header)["views"]}
    raw = gzip.decompress(base64.b64decode(data))
    ops = pl.read_ipc_stream(io.BytesIO(raw[views["ops"]["offset"] :][: views["ops"]["length"]]))
    assert HOSTILE in ops["name"].cast(pl.String).to_list()


def test_the_html_file_says_why_it_could_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(TorchProfError, match=r"could not be written.*choose another path"):
        report().to_html(tmp_path / "no" / "such" / "folder.html")


def test_the_summary_holds_verdict_steps_ops_and_peak() -> None:
    text = report().summary()
    for part in (
        "step 2 recorded",
        "Device-bound",
        "Mean step 100 µs",
        "aten::mm",
        "peak 512 B",
        "70 µs of 100 µs per step",
    ):
        assert part in text
    facts = json.loads(report().summary("json"))
    assert facts["verdict"]["title"] == "Device-bound"
    assert facts["ops"][0]["name"] == "aten::mm"


def test_the_summary_has_all_doubts_in_the_words_of_the_page() -> None:
    # The third step is an outlier, and the others differ: 60, 100, 140 and 100 us, mean 100 and deviation 28.3.
    starts, lengths = (0, 60, 160, 1_160, 1_300), (60, 100, 1_000, 140, 100)
    doubtful = Report(
        make_trace(
            *(annotation(f"ProfilerStep#{n}", at, us) for n, (at, us) in enumerate(zip(starts, lengths, strict=True))),
            *(span("aten::mm", at, us) for at, us in zip(starts, lengths, strict=True)),
        )
    )
    shown = json.loads(doubtful._forms.page.header)["verdict"]["doubts"]
    assert [doubt.split()[0] for doubt in shown] == ["Step", "Steps"]
    assert shown[1] == "Steps differ by 28.3 % (standard deviation)."
    lines = doubtful.summary().splitlines()
    assert [line.removeprefix("▲ ") for line in lines if line.startswith("▲ ")] == shown
    assert json.loads(doubtful.summary("json"))["verdict"]["doubts"] == shown
    assert doubtful.summary().count(shown[0]) == 1


def test_a_name_that_does_not_fit_loses_what_all_ops_begin_with_before_it_is_cut() -> None:
    node = "autograd::engine::evaluate_function: NativeLayerNormBackward0"
    long = f"aten::{'x' * 60}"
    text = Report(make_trace(span("aten::mm", 0, 9), span(node, 10, 9), span(long, 20, 9))).summary()
    assert "\naten::mm " in text
    assert "\nNativeLayerNormBackward0 " in text
    assert f"\n{'x' * 30}…{'x' * 11} " in text


def test_the_text_lists_ops_and_not_the_ranges_around_them() -> None:
    report = Report(make_trace(annotation("## backward ##", 0, 90), span("aten::mm", 5, 10), span("aten::relu", 20, 5)))
    shown = [line.split()[0] for line in report.summary().splitlines() if line.startswith(("aten::", "##"))]
    assert shown == ["aten::mm", "aten::relu"]


def test_a_column_of_the_summary_has_one_unit_and_its_points_below_each_other() -> None:
    spans = span("aten::mm", 0, 2_000), span("aten::add", 3_000, 3), span("aten::sub", 4_000, 0)
    lines = Report(make_trace(*spans)).summary().splitlines()
    head = next(line for line in lines if line.startswith("Op "))
    mm, add, none = (next(line for line in lines if line.startswith(f"aten::{name} ")) for name in ("mm", "add", "sub"))
    assert "Self CPU ms" in head
    # 2 ms and 3 us in ms; the times end where their title ends.
    at = head.index("Self CPU ms") + len("Self CPU ms")
    assert [mm[:at][-5:], add[:at][-5:], none[:at][-5:]] == ["2.000", "0.003", "0    "]


def test_an_unknown_summary_or_figure_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'text', 'markdown' or 'json'"):
        report().summary("xml")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="choose from steps, ops, flame, memory"):
        report().figure("pie")
    with pytest.raises(ValueError, match="Memory was not recorded"):
        Report(make_trace(span("a", 0, 1))).figure("memory")


@pytest.mark.parametrize("view", ["steps", "ops", "flame", "memory"])
def test_figures_are_drawn_to_size(view: str) -> None:
    png = to_png(report().figure(view))
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG")
    assert (width, height) > (400, 50)


def test_frames_have_the_names_that_the_documentation_promises() -> None:
    found = report()
    assert found.ops.columns[:5] == ["name", "kind", "phase", "calls", "self_cpu_ns"]
    assert found.kernels["name"].to_list() == ["gemm"]
    assert found.steps["device_busy_ns"].to_list() == [70_000]
    assert found.allocations["size_bytes"].to_list() == [512]
    assert found.memory["total_bytes"].to_list() == [512]
    assert found.trace.memory["delta_bytes"].to_list() == [512]
    assert found.problems == []


def test_an_empty_trace_has_a_report() -> None:
    empty = Report(make_trace())
    assert "Nothing recorded" in empty.summary()
    assert json.loads(empty._forms.page.header)["verdict"]["title"] == "Nothing recorded"


def test_the_public_names_are_exactly_those_listed() -> None:
    errors = [name for name, value in vars(torchprof_magic.model.errors).items() if name.endswith("Error")]
    names = [
        "Advice",
        "Comparison",
        "RanksReport",
        "Report",
        "__version__",
        "add_metadata",
        "callbacks",
        "formulas",
        "last",
        "load",
        "measure_peak",
        "peaks",
    ]
    names += ["name_compiled_code", "paused", "prime", "profile", "ranks", "rules", "step", "steps"]
    assert torchprof_magic.__all__ == dir(torchprof_magic) == sorted([*errors, *names])
    for name in torchprof_magic.__all__:
        getattr(torchprof_magic, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        torchprof_magic.nonsense  # noqa: B018


def test_opening_a_trace_imports_no_library_that_only_recording_or_drawing_needs(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_bytes(chrome(span("aten::mm", 5, 60)))
    code = f"""
import sys, torchprof_magic
torchprof_magic.load({str(path)!r})
print(*sorted({{"torch", "matplotlib", "IPython", "ipywidgets", "anywidget", "fsspec"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_work_of_no_op_has_no_calls_in_the_summary_and_the_static_copy() -> None:
    # Queued before the recording began: no launch is in the file.
    report = Report(make_trace(span("aten::mm", 0, 5), kernel("gemm", 2, 30, correlation=1)))
    line = next(line for line in report.summary().splitlines() if line.startswith("outside of recorded ops"))
    assert line.split() == ["outside", "of", "recorded", "ops", "–", "–", "–", "30.00", "30.00"]
    assert "outside of recorded ops" in report._repr_html_()
