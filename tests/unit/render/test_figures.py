from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import matplotlib as mpl
import polars as pl
import pytest
from amount import sampled
from matplotlib.colors import to_hex
from matplotlib.text import Text
from support import allocation, annotation, frame, make_trace, span

from torchprof_magic.model.shapes import Column, Series, Tree, Weight
from torchprof_magic.model.units import MIB
from torchprof_magic.render.figures import LABEL_CHARS, draw_memory, flame_boxes, plain_label, to_png
from torchprof_magic.render.palette import category_colour
from torchprof_magic.report.trace_report import Report

MOST_CHARS = 300  # in a box of the flame graph over the whole width, with every character escaped
VIEWS = ("steps", "ops", "flame", "memory")
# Each of them breaks a figure, or its layout, if matplotlib reads it as it is.
HOSTILE = {
    "mathematics": r"$\frac{1}{$",
    "escaped dollars": r"\$\frac{\$ $\alpha$ \\$x$",
    "one dollar": "$",
    "lines": "\n" * 50,
    "control characters": "a\x1b[31m\x00\x9b\u202eb\t\r\v\f",
    "long": "W" * 100_000,
    "hidden from legends": "_nolegend_",
    "format": "%s {} {lane} {0!r}",
    "LaTeX": r"\input{/etc/passwd} \write18{x} #&~^_",
    "empty": "",
}


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    with mpl.rc_context():
        yield


def report(name: str) -> Report:
    found = make_trace(
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": name}},
        annotation("ProfilerStep#2", 0, 100),
        frame(name, 1, 90),
        span(name, 5, 60),
        allocation(12, 512, 512),
        allocation(14, 512, 1024),
    )
    memory = found.memory.with_columns(device=pl.lit(name).cast(found.memory.schema["device"]))
    meta = replace(found.meta, title=name, device_names=(name,))
    return Report(replace(found, meta=meta, memory=memory))


def size_px(png: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", sampled(list(HOSTILE.values())), ids=sampled(list(HOSTILE)))
def test_a_figure_is_drawn_whatever_its_names_are(view: str, name: str) -> None:
    figure = report(name).figure(view)
    width_px, height_px = size_px(to_png(figure))
    assert width_px == 900
    assert height_px < 600
    for text in figure.findobj(Text):
        label = text.get_text()
        assert label.isprintable()
        assert len(label) <= MOST_CHARS
        assert not text.get_usetex()


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_the_static_copy_is_made_whatever_the_names_are(name: str) -> None:
    copy = report(name)._repr_html_()
    assert [copy.count(f'<img alt="{view}"') for view in ("Flame graph", "Memory")] == [1, 1]


@pytest.mark.parametrize("view", VIEWS)
def test_a_figure_does_not_run_latex_when_the_users_own_figures_do(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        pytest.fail("LaTeX was run")

    monkeypatch.setattr("matplotlib.texmanager.TexManager.make_dvi", run)
    mpl.rcParams["text.usetex"] = True
    figure = report(r"\input{/etc/passwd}").figure(view)
    texts = figure.findobj(Text)
    assert texts
    assert not any(text.get_usetex() for text in texts)
    to_png(figure)
    assert mpl.rcParams["text.usetex"] is True


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("aten::mm", "aten::mm"),
        ("模型 é", "模型 é"),
        ("a$b$", r"a\$b\$"),
        ("a\nb\x1b", "a�b�"),
        ("W" * 100, f"{'W' * (LABEL_CHARS - 1)}…"),
        ("$" * 100, "\\$" * (LABEL_CHARS - 1) + "…"),
    ],
)
def test_a_label_is_short_plain_text(text: str, label: str) -> None:
    assert plain_label(text) == label


def test_the_memory_is_drawn_by_category_one_on_top_of_the_other() -> None:
    values = {"lane": ["cpu"] * 2, "time_ns": [0, 1_000_000], "allocated_bytes": [5 * MIB, 9 * MIB]}
    bands = {"parameter_bytes": [5 * MIB, 5 * MIB], "unknown_bytes": [0, 4 * MIB], "input_bytes": [0, 0]}
    columns = {name: Column(name=name, title=name, unit="bytes", definition="") for name in (*values, *bands)}
    series = Series(
        frame=pl.DataFrame(values | bands),
        bands=(columns["allocated_bytes"],),
        stacked=tuple(columns[name] for name in bands),
    )
    (axes,) = draw_memory(series).axes
    tops = {area.get_label(): area.get_datalim(axes.transData).ymax for area in axes.collections}
    assert tops == pytest.approx({"parameter_bytes": 5, "unknown_bytes": 9})
    assert to_hex(axes.collections[0].get_facecolor()[0]) == category_colour("parameter")


def test_a_flame_graph_has_the_boxes_that_are_wide_enough_each_under_its_caller() -> None:
    # Half of the time is in one call, a quarter of that in another, and the rest in 100,000 that nobody could see.
    narrow = 100_000
    parents = [-1, 0, 1, 1, *[0] * narrow]
    total = [1_000_000, 500_000, 125_000, 1000, *[5] * narrow]
    weight = Weight(name="host_ns", title="Host", unit="ns")
    frame = pl.DataFrame(
        {
            "name": ["", "outer", "inner", "tiny", *["narrow"] * narrow],
            "parent": parents,
            "total_host_ns": total,
            "phase": ["forward"] * len(parents),
        }
    )
    boxes = flame_boxes(Tree(frame=frame, weights=(weight,)))
    assert [box[:4] for box in boxes] == [(0.0, 0.5, 0, "outer"), (0.0, 0.125, 1, "inner")]


def test_a_curve_of_many_changes_is_drawn_from_a_few_rows_with_its_peak() -> None:
    count = 100_000
    size = [MIB] * count
    size[70_000] = 9 * MIB
    frame = pl.DataFrame({"lane": ["cpu"] * count, "time_ns": range(count), "allocated_bytes": size})
    band = Column(name="allocated_bytes", title="Allocated", unit="bytes", definition="")
    (axes,) = draw_memory(Series(frame=frame, bands=(band,))).axes
    (line,) = axes.lines
    time_ms, size_mib = line.get_xdata(), line.get_ydata()
    assert len(time_ms) <= 4 * 1800
    assert (size_mib.max(), time_ms[size_mib.argmax()]) == (9.0, 0.07)
    assert (time_ms[0], time_ms[-1]) == (0.0, (count - 1) / 1e6)


def test_a_step_that_does_not_count_is_crossed_out_and_says_why() -> None:
    steps = [annotation(f"ProfilerStep#{number}", number * 100, 90) for number in (2, 3, 5)]
    long = annotation("ProfilerStep#6", 600, 225)  # 2.5 times the median of the others
    axes = Report(make_trace(*steps, long, span("aten::mm", 600, 225))).figure("steps").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "step 2", "step 3", "step 5", "step 6: 2.50 times the median"
    ]  # fmt: skip
    crosses = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.lines]
    assert crosses == [([0, 0.225], [3.4, 2.6]), ([0, 0.225], [2.6, 3.4])]
