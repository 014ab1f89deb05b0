"""Planted leaks in a cell that is recorded with memory alone: the line that allocates, and what holds the blocks."""

from __future__ import annotations

import io
import json
import re
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest
import torch
from amount import sampled
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic as tp
from torchprof_magic.render.page import build_page
from torchprof_magic.report.views import TABS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Planted(NamedTuple):
    """What is run before, what each step adds, the line of the loop that is to blame, and a pattern of the holder."""

    before: str
    step: str
    line: int
    holder: str


SETUP = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(50, 100)
"""
# The lines of the cell: 2 loop, 3 forward, 4 backward, 5 step, 6 what keeps.
LOOP = """\
%%torchprof --memory --active 5 --display none
for number in range(8):
    out = model(x); loss = out.sum()
    loss.backward({how})
    optimizer.step(); optimizer.zero_grad()
    {step}
"""
LEAKS = {
    "list of losses with their graphs": Planted(
        "losses = []", "losses.append(model(x).pow(2).sum())", 6, r"losses\[…\]"
    ),
    "retained graph": Planted("kept = []", "kept.append(loss)", 3, r"kept\[…\]"),
    "forward hook": Planted(
        "seen = []\nhandle = model[0].register_forward_hook(lambda module, given, found: seen.append(found.detach()))",
        "pass",
        3,
        r"seen\[…\]",
    ),
    "closure": Planted(
        "def make():\n    stored = []\n    def keep(value):\n        stored.append(value)\n    return keep\n"
        "keep = make()",
        "keep(torch.randn(300, 10))",
        6,
        r"keep\.stored\[…\]",
    ),
    "cache": Planted("cache = {}", "cache['batch %d' % number] = torch.randn(300, 10)", 6, r"cache\['batch \d'\]"),
    "attribute of a module": Planted(
        "model.history = []", "model.history.append(out.detach() + 1)", 6, r"model\.history\[…\]"
    ),
    "global dictionary of lists": Planted(
        "stats = {'out': []}", "stats['out'].append(torch.randn(300, 10))", 6, r"stats\['out'\]\[…\]"
    ),
    "exceptions with their tracebacks": Planted(
        "errors = []\n"
        "def fail():\n    large = torch.randn(300, 10)\n    raise ValueError\n"
        "def attempt():\n    try:\n        fail()\n    except ValueError as error:\n        errors.append(error)",
        "attempt()",
        6,
        r"errors\[…\]\.large",
    ),
    "growing state of the optimizer": Planted(
        "",
        "optimizer.state[model[0].weight].setdefault('old', []).append(torch.randn(300, 10))",
        6,
        r"optimizer\.state",
    ),
    "attribute of a class": Planted(
        "class Log:\n    entries = []", "Log.entries.append(torch.randn(300, 10))", 6, r"Log\.entries\[…\]"
    ),
}


@pytest.fixture
def shell() -> Iterator[Any]:
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "torchprof_magic")
    yield shell
    shell.run_line_magic("unload_ext", "torchprof_magic")
    shell.reset()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("name", sampled(list(LEAKS)))
def test_a_planted_leak_is_found_with_its_line_and_what_holds_it(shell: Any, name: str) -> None:
    leak = LEAKS[name]
    shell.run_cell(SETUP + leak.before).raise_error()
    how = "retain_graph=True" if name == "retained graph" else ""
    shell.run_cell(LOOP.format(how=how, step=leak.step)).raise_error()
    assert tp.last is not None
    found = tp.last.leaks
    assert found["line"][0] == leak.line
    assert found["steps"][0] >= 4
    holders = tp.last.holders(found[:1])
    assert any(re.search(leak.holder, holder) for holder in holders["holder"][:2]), holders["example"].to_list()


def test_the_live_page_asks_who_holds_what_grows_and_a_file_does_not(shell: Any) -> None:
    shell.run_cell(SETUP + "kept = []").raise_error()
    shell.run_cell(LOOP.format(how="", step="kept.append(torch.randn(300, 10))")).raise_error()
    report = tp.last
    assert report is not None
    held = late_view(report._forms.page.pulled["holders"]())
    assert (held["holder"].to_list(), held["size_bytes"].to_list()) == (["kept[…]"], [5 * 300 * 10 * 4])
    shell.run_cell("kept.clear()").raise_error()
    assert late_view(report._forms.page.pulled["holders"]()).height == 0
    header = json.loads(
        build_page(report.trace, TABS, report._analysis, report.verdict, "run", is_standalone=True).header
    )
    assert "leaks" in {view["name"] for view in header["views"]} >= {"memory"}
    assert "holders" not in {view["name"] for view in header["views"]}


def late_view(data: bytes) -> pl.DataFrame:
    """Return the rows of a view that is built on request; its header comes first."""
    return pl.read_ipc_stream(io.BytesIO(data[data.index(b"\xff\xff\xff\xff") :]))


def test_a_block_that_records_memory_knows_the_lines_of_what_it_keeps() -> None:
    kept: list[torch.Tensor] = []

    def keep() -> None:
        kept.append(torch.randn(300, 10))

    with tp.profile(profile_memory=True) as p:
        for _ in p.steps(range(8)):
            keep()
    found = p.report.leaks
    line = keep.__code__.co_firstlineno + 1
    assert found.select("file", "line", "op").rows() == [(__file__, line, "aten::randn")]
    assert found.select("kept_in", "kept_file", "kept_line").rows() == [("kept[…]", __file__, line)]
    with tp.profile(profile_memory=True, lines=False) as p:
        for _ in p.steps(range(8)):
            keep()
    assert p.report.leaks["line"].to_list() == [None]


def test_a_loop_that_keeps_nothing_has_no_leaks(shell: Any) -> None:
    shell.run_cell(SETUP).raise_error()
    shell.run_cell(LOOP.format(how="", step="best = min(loss.item(), 0)")).raise_error()
    assert tp.last is not None
    assert tp.last.leaks.height == 0


# A buffer of fixed size that was full before, and how each step puts something in.
RINGS = {
    "deque": ("from collections import deque\nring = deque(maxlen=6)", "ring.append({new})"),
    "list by index": ("ring = [None] * 6", "ring[number % 6] = {new}"),
    "cache that drops its oldest": ("ring = {{}}", "ring.pop(number - 6, None); ring[number] = {new}"),
    "deque of losses with their graphs": (
        "from collections import deque\nring = deque(maxlen=6)",
        "ring.append(model(x).pow(2).sum())",
    ),
}
LATE_LOOP = """\
%%torchprof --memory --skip-first 8 --active 5 --display none
for number in range(16):
    out = model(x); loss = out.sum()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    {step}
"""


@pytest.mark.parametrize("name", sampled(list(RINGS)))
def test_a_buffer_of_fixed_size_that_was_full_is_no_leak(shell: Any, name: str) -> None:
    before, step = (text.format(new="torch.randn(300, 10)") for text in RINGS[name])
    shell.run_cell(SETUP + before).raise_error()
    shell.run_cell(LATE_LOOP.format(step=step)).raise_error()
    assert tp.last is not None
    assert tp.last.leaks.rows() == []
    assert "memory_leak" not in [advice.rule for advice in tp.last.advice]


def test_a_list_beside_a_full_buffer_is_the_only_leak_and_is_certain(shell: Any) -> None:
    before, step = (text.format(new="torch.randn(300, 10)") for text in RINGS["deque"])
    shell.run_cell(f"{SETUP}{before}\nkept = []").raise_error()
    shell.run_cell(LATE_LOOP.format(step=f"{step}\n    kept.append(torch.ones(300, 10))")).raise_error()
    assert tp.last is not None
    assert tp.last.leaks.select("line", "bytes_per_step", "certainty").rows() == [(6, 300 * 10 * 4, "measured")]
    assert tp.last.holders()["holder"].to_list() == ["kept[…]"]


def test_a_saved_run_knows_what_was_certain_and_a_plain_trace_does_not(shell: Any, tmp_path: Path) -> None:
    shell.run_cell(SETUP + "kept = []").raise_error()
    shell.run_cell(LOOP.format(how="", step="kept.append(torch.randn(300, 10))")).raise_error()
    assert tp.last is not None
    saved = tp.load(tp.last.save(tmp_path / "run.torchprof"))
    assert saved.leaks["certainty"].to_list() == ["measured"]
    plain = tp.load(tp.last.export(tmp_path / "run.json"))
    assert plain.leaks["certainty"].to_list() == ["possible"]


@pytest.mark.parametrize(
    ("before", "step", "words"),
    sampled(
        [
            ("kept = []", "kept.append(out.detach() + 1)", "`kept[…]` keeps tensors: bound it"),
            ("kept = []", "kept.append((out.detach() + 1).numpy())", "`kept[…]` keeps tensors: bound it"),
            (
                "kept = []",
                "kept.append(model(x).exp().sum())",
                "`kept[…]` keeps a graph of autograd: keep `x.detach()`",
            ),
        ],
        2,
    ),
)
def test_the_advice_for_a_leak_depends_on_what_is_kept(shell: Any, before: str, step: str, words: str) -> None:
    shell.run_cell(SETUP + before).raise_error()
    shell.run_cell(LOOP.format(how="", step=step)).raise_error()
    assert tp.last is not None
    (found,) = [advice for advice in tp.last.advice if advice.rule == "memory_leak"]
    assert (words in found.fix, found.certainty) == (True, "measured")
    assert f", kept by line 6: `{step}`" in found.evidence
    assert f"allocated in line {found.line}) [saves " in tp.last.summary()
    assert re.search(r"\[saves [\d.]+ KiB per step, recorded\]", tp.last.summary())


def test_a_file_of_the_page_names_the_holders_that_were_known_when_it_was_written(shell: Any, tmp_path: Path) -> None:
    shell.run_cell(SETUP + "kept = []").raise_error()
    shell.run_cell(LOOP.format(how="", step="kept.append(torch.randn(300, 10))")).raise_error()
    report = tp.last
    assert report is not None
    assert views_in(report.to_html(tmp_path / "page.html"))["holders"]["empty"] is None
    shell.run_cell("kept.clear()").raise_error()
    assert views_in(report.to_html(tmp_path / "page.html"))["holders"]["empty"] is None
    loaded = tp.load(report.save(tmp_path / "run.torchprof"))
    assert "holders" not in views_in(loaded.to_html(tmp_path / "page.html"))


def views_in(page: Path) -> dict[str, dict[str, Any]]:
    """Return the headers of the views in a file, by name."""
    header = re.search(r'id="header">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert header is not None
    return {view["name"]: view for view in json.loads(header[1])["views"]}


def test_the_peak_has_the_older_tensors_and_the_summary_says_where_it_has_not(shell: Any, tmp_path: Path) -> None:
    shell.run_cell(SETUP + "aside = torch.ones(1_000_003)").raise_error()
    shell.run_cell(LOOP.format(how="", step="pass")).raise_error()
    assert tp.last is not None
    assert 4 * 1_000_003 in tp.last.memory_at()["size_bytes"].to_list()
    assert "without" not in tp.last.summary()
    assert "not counting what was in use before" in tp.load(tp.last.export(tmp_path / "run.json")).summary()


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [({"active": 4, "repeat": 2}, 8), ({"active": 4, "two_pass": True}, 4)],
    ids=["cycles", "passes"],
)
def test_a_full_buffer_is_no_leak_in_several_cycles_and_in_two_passes_and_a_list_is(
    schedule: dict[str, Any], steps: int
) -> None:
    model = torch.nn.Linear(20, 20)
    ring, kept = deque((torch.randn(300, 10) for _ in range(30)), maxlen=30), []
    with tp.profile(profile_memory=True, **schedule) as p:
        for _ in p.steps(range(24)):
            model(torch.randn(4, 20)).sum().backward()
            ring.append(torch.randn(300, 10))
            kept.append(torch.randn(200, 10))
    found = p.report.leaks.select("bytes_per_step", "steps", "certainty").rows()
    assert found == [(200 * 10 * 4, steps, "measured")]


FUNCTIONAL = """\
from torch.func import functional_call, grad
def loss_of(parameters):
    return functional_call(model, parameters, (x,)).square().mean()
parameters, kept = dict(model.named_parameters()), []
"""
FUNCTIONAL_LOOP = """\
%%torchprof --memory --shapes {flags} --display none
for number in range(8):
    found = grad(loss_of)(parameters)
    parameters = {{name: (old - 0.01 * found[name]).detach() for name, old in parameters.items()}}
    {step}
"""


@pytest.mark.parametrize("flags", ["--active 5", "--wait 0 --warmup 0 --active 4 --repeat 2"])
@pytest.mark.parametrize(("step", "rules"), [("pass", []), ("kept.append(parameters)", ["memory_leak"])])
def test_what_torch_keeps_of_wrapped_tensors_is_no_leak_of_the_program(
    shell: Any, flags: str, step: str, rules: list[str]
) -> None:
    shell.run_cell(SETUP + FUNCTIONAL).raise_error()
    shell.run_cell(FUNCTIONAL_LOOP.format(flags=flags, step=step)).raise_error()
    assert tp.last is not None
    assert [each.rule for each in tp.last.advice if each.rule == "memory_leak"] == rules
    assert [problem.code for problem in tp.last.problems].count("capture.kept_tensors") == 1
