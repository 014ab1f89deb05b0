"""The text of generated code is kept, as far as there is room, with the lines of its kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from support import make_trace, recording, span

from torchprof_magic.exporters.redaction import redacted
from torchprof_magic.facts.source.generated_code import places_in_code
from torchprof_magic.model.recording import FxCall, FxGraph, FxNode
from torchprof_magic.model.trace import MAX_CODE_CHARS
from torchprof_magic.run.fx_nodes import with_fx_nodes

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

CODE = """# AOT ID
cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'], r'''
kernel(float* out) {}
''')
triton_poi_fused_1 = async_compile.triton('triton_poi_fused_1', '''
''')
def call(args):
    # [Provenance debug handles] extern_kernels.mm:1
    extern_kernels.mm(a, b, out=c)
    # [Provenance debug handles] cpp_fused_add_0:2
    cpp_fused_add_0(c)
    # [Provenance debug handles] extern_kernels.mm:3
    extern_kernels.mm(c, b, out=d)
"""
NODE = FxNode(name="add", does="add", stack='  File "/home/jane/net.py", line 3, in forward\n    y = secret + 1\n')
CALLS = tuple(
    FxCall(kernel=name, nodes=(NODE,))
    for name in ("extern_kernels.mm", "cpp_fused_add_0", "extern_kernels.mm", "triton_poi_fused_1", "other")
)


def trace_of(folder: Path, *codes: Path) -> Trace:
    graphs = tuple(FxGraph(name=f"k{at}", code=str(code), calls=CALLS) for at, code in enumerate(codes))
    events = [span(f"## Call CompiledFxGraph k{at} ##", 10 * at, 9) for at in range(len(codes))]
    return with_fx_nodes(make_trace(*events), replace(recording(folder), fx_graphs=graphs))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_kernels_stand_where_they_are_defined_and_ops_where_they_are_called(tmp_path: Path) -> None:
    code = written(tmp_path, "c1.py", CODE)
    trace = trace_of(tmp_path, code)
    places = trace.fx_nodes.with_columns(places_in_code(trace).alias("place"))
    kernels = places.filter(pl.col("kernel").is_not_null())["place"].to_list()
    assert kernels == [f"{code}:9", f"{code}:2", f"{code}:13", f"{code}:5", str(code)]
    assert places.filter(pl.col("call") >= 0)["place"].to_list() == kernels
    code.unlink()
    assert trace.fx_code.select(pl.col("file").cast(pl.String), "text").rows() == [(str(code), CODE)]


def test_code_whose_file_is_gone_has_no_text_and_no_lines(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, tmp_path / "gone.py")
    assert trace.fx_code.height == 0
    assert set(places_in_code(trace)) == {str(tmp_path / "gone.py")}


def test_what_is_too_long_is_cut_and_says_so_and_short_files_stay_whole(tmp_path: Path) -> None:
    long = [written(tmp_path, f"long{at}.py", "x" * 300_000) for at in range(2)]
    trace = trace_of(tmp_path, long[0], written(tmp_path, "short.py", CODE), long[1])
    texts = dict(trace.fx_code.select(pl.col("file").cast(pl.String), "text").rows())
    assert texts[str(tmp_path / "short.py")] == CODE
    assert sum(map(len, texts.values())) <= MAX_CODE_CHARS
    for path in long:
        kept = (MAX_CODE_CHARS - len(CODE)) // 2
        assert texts[str(path)].endswith("characters are in this file on the machine that recorded.")
        assert kept - 1 <= len(texts[str(path)]) <= kept


def test_a_redacted_report_has_neither_the_code_nor_lines_of_the_model(tmp_path: Path) -> None:
    trace = redacted(trace_of(tmp_path, written(tmp_path, "c1.py", CODE)))
    assert trace.fx_code.height == 0
    texts = str(trace.fx_nodes.to_dicts())
    assert "secret" not in texts
    assert "jane" not in texts
    assert "net.py" in texts
    note = next(problem.message for problem in trace.problems if problem.code == "run.redacted")
    assert "1 file of generated code" in note
