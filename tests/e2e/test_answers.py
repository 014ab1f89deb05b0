"""A person's questions to real traces, answered by clicking; the answers come from the raw files, by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from amount import sampled
from driver import open_tab, screenshot
from playwright.sync_api import Browser, Page, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FILES = (
    "02_a100_ddp_rank0of2.json.gz",
    "03_h100_qwen_stacks_memory.json.gz",
    "07_mi300_flux_triton_large.json.gz",
    "05_v100_resnet50_old_schema.json.gz",
)
WORK = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
LEAST_US = 1_000


class Answer(NamedTuple):
    """What the raw file says of the first gap that is longer than 1 ms."""

    before: str
    after: str
    gap_us: float
    by: str | None
    shapes: object


def answer_in(events: list[dict[str, Any]]) -> Answer | None:
    spans = [event for event in events if event.get("ph") == "X" and "dur" in event]
    steps = [event for event in spans if str(event.get("name")).startswith("ProfilerStep#")]
    steps = [step for step in steps if str(step.get("cat")).lower() not in ("gpu_user_annotation", "kernel")]
    begin = min((float(step["ts"]) for step in steps), default=float("-inf"))
    end = max((float(step["ts"]) + float(step["dur"]) for step in steps), default=float("inf"))
    work = sorted(
        (event for event in spans if str(event.get("cat")).lower() in WORK), key=lambda event: float(event["ts"])
    )
    last = work[0]
    for event in work[1:]:
        start, until = float(event["ts"]), float(last["ts"]) + float(last["dur"])
        if start - until > LEAST_US and until >= begin and start <= end:
            return _answer(spans, last, event, start - until)
        if start + float(event["dur"]) > until:
            last = event
    return None


def _answer(spans: list[dict[str, Any]], last: dict[str, Any], first: dict[str, Any], gap_us: float) -> Answer:
    call = first["args"].get("correlation")
    launches = [
        event
        for event in spans
        if "runtime" in str(event.get("cat")).lower() and event.get("args", {}).get("correlation") == call
    ]
    op = _innermost(spans, launches[0]) if launches else None
    return Answer(
        before=str(last["name"]),
        after=str(first["name"]),
        gap_us=gap_us,
        by=None if op is None else str(op["name"]),
        shapes=None if op is None else op["args"].get("Input Dims", op["args"].get("Input dims")),
    )


def _innermost(spans: list[dict[str, Any]], call: dict[str, Any]) -> dict[str, Any] | None:
    start, end = float(call["ts"]), float(call["ts"]) + float(call["dur"])
    around = [
        event
        for event in spans
        if str(event.get("cat")).lower() in ("cpu_op", "operator")
        and not str(event["name"]).startswith("ProfilerStep")
        and event["tid"] == call["tid"]
        and float(event["ts"]) <= start
        and float(event["ts"]) + float(event["dur"]) >= end
    ]
    return min(around, key=lambda event: float(event["dur"]), default=None)


@pytest.mark.parametrize("name", sampled(FILES))
def test_the_first_long_wait_is_explained_with_kernel_op_shapes_and_stack(
    name: str, browser: Browser, traces: Path, tmp_path: Path
) -> None:
    text = gzip.decompress((traces / name).read_bytes())
    answer = answer_in(json.loads(text)["traceEvents"])
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(tp.load(traces / name).to_html(tmp_path / "report.html").as_uri())
    report = page.locator('.tp-report[data-tp-ready="true"]')
    open_tab(report, "timeline")
    search = report.locator(".tp-search:visible")
    search.fill("wait >1ms")
    if answer is None:
        expect(report.locator("canvas.tp-stage-canvas")).to_have_attribute("data-tp-matches", "0")
        page.close()
        return
    report.get_by_role("button", name="All", exact=True).click()
    search.press("Enter")
    # A device that has not begun is idle, too; its first work has none before it.
    if text_of(page, "ran before") == "nothing in the recording":
        search.press("Enter")
    # Which kernel ran when the device first idled for over 1 ms, and what did the host do?
    assert text_of(page, "ran before") == answer.before
    assert text_of(page, "cause") != ""
    gap = text_of(page, "whole gap") or text_of(page, "waits")
    assert in_us(gap.split(",")[0]) == pytest.approx(answer.gap_us, rel=0.01)
    screenshot(page, f"question-{name[:2]}-wait")
    # Who launched what came next, with which shapes?
    assert text_of(page, "runs after") == answer.after
    page.locator('[data-tp-detail="runs after"] button').click()
    if answer.by is None:
        assert text_of(page, "by") == ""
    else:
        assert text_of(page, "by") == answer.by
        page.locator('[data-tp-detail="by"] button').click()
        if answer.shapes is not None:
            assert json.loads(text_of(page, "shapes")) == answer.shapes
    screenshot(page, f"question-{name[:2]}-op")
    page.close()


def text_of(page: Page, label: str) -> str:
    """Return a detail of the panel in full; "" when it is not there."""
    found = page.locator(f'[data-tp-detail="{label}"] dd')
    return (found.first.get_attribute("title") or "") if found.count() else ""


def in_us(text: str) -> float:
    """Return "1.62 ms" in us."""
    value, unit = text.split()[:2]
    return float(value.replace(",", "")) * {"ns": 1e-3, "µs": 1, "ms": 1e3, "s": 1e6}[unit]
