from __future__ import annotations

import contextlib
import json
import re
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from amount import examples, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.ingest import read_chrome
from torchprof_magic.ingest.saved.reader import is_saved
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.meta import CellSource, Meta, Problem, StepMark, Stepping
from torchprof_magic.model.trace import (
    FRAME_COLUMNS,
    FRAME_SCHEMAS,
    MAX_JSON_CHARS,
    MAX_NAME_CHARS,
    SAVED_VERSION,
    Trace,
)
from torchprof_magic.report.trace_report import Report

# What events have since version 15 of the format.
GRAPH_COLUMNS = ("graph_node", "annotation")


def assert_same(left: Trace, right: Trace) -> None:
    for name in FRAME_SCHEMAS:
        assert getattr(left, name).schema == getattr(right, name).schema, name
        assert_frame_equal(getattr(left, name), getattr(right, name))
    assert left.meta == right.meta
    assert left.problems == right.problems


@settings(max_examples=examples(60), derandomize=True, deadline=None, database=None)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=8), st.integers(0, 50), st.integers(-1, 30), st.integers(1, 3),
            st.sampled_from(["cpu_op", "kernel", "python_function", "user_annotation", "odd"]),
            st.dictionaries(st.sampled_from(["Sequence number", "Input Dims", "stream", "correlation"]),
                            st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(0, 9), max_size=3))),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_whatever_was_read_is_the_same_after_saving(rows: list[tuple[Any, ...]]) -> None:
    events = [span(name, start, dur, cat, tid) | {"args": args} for name, start, dur, tid, cat, args in rows]
    trace = make_trace(*events)
    with tempfile.TemporaryDirectory() as folder:
        assert_same(load(write_saved(trace, Path(folder) / "run.torchprof")).trace, trace)


@cache
def full_trace() -> Trace:
    trace = make_trace(
        annotation("ProfilerStep#3", 0, 100),
        frame("train.py(3): step", 1, 90),
        span("模型 \0\u2028", 2, 30, **{"Input Dims": [[2, 3], []], "Sequence number": 4}),
        span("outlives", 80, 30),
        launch(4, 2, correlation=1),
        kernel("gemm", 20, 70, correlation=1),
        allocation(12, 512, 512),
        {"ph": "s", "id": 1, "cat": "ac2g", "pid": 7, "tid": 1, "ts": 3},
        baseTimeNanoseconds=1_700_000_000_000_000_000,
    )
    meta = Meta(
        title='run "1" \udcff',
        start_unix_ns=2**62,
        torch_version="2.13.0",
        device_names=("H100", ""),
        devices=((3, "H100"),),
        rank=0,
        has_stacks=True,
        cell=CellSource(label="In [4]", filename="<ipython>", source="x = 1\n"),
        cell_labels=(("<ipython>", "In [4]"),),
        stepping=Stepping(how="loop", line=3, code="for x in y:"),
        recorded_steps=(StepMark(number=3, cycle=0, is_complete=False),),
        is_partial=True,
        extra=(("key", "value"),),
    )
    problems = (Problem(code="a.b", severity="data_loss", count=3, message="lost", fix="again"),)
    fields = {name: getattr(trace, name) for name in FRAME_SCHEMAS}
    module = {
        "kind": "module",
        "parent": -1,
        "name": "encoder.0",
        "class_name": "Linear",
        "parameters": 6,
        "bytes": 24,
        "inputs": "[3]",
        "outputs": "[2]",
    }
    fields["sites"] = pl.DataFrame([module], schema=FRAME_SCHEMAS["sites"])
    fields["scopes"] = pl.DataFrame([(0, 0, 5_000, 2_000, 0)], schema=FRAME_SCHEMAS["scopes"], orient="row")
    fields |= snapshot_frames() | graph_frames()
    tag = (5_000, "parameter", "cpu", 4096, 512, "encoder.0.weight", "[128]", "float32", 0)
    fields["tags"] = pl.DataFrame([tag], schema=FRAME_SCHEMAS["tags"], orient="row")
    storage = (2**47, 512, True, False, 7_000, 0)
    fields["storages"] = pl.DataFrame([storage], schema=FRAME_SCHEMAS["storages"], orient="row")
    wait = ("wait", "time.sleep", "<ipython>", 3, 0, 5_000, 2_000, 0)
    fields["waits"] = pl.DataFrame([wait], schema=FRAME_SCHEMAS["waits"], orient="row")
    imported = ("sqlite3", None, "<ipython>", 3, 0, 5_000, 2_000, 0)
    fields["host_lines"] = pl.DataFrame([imported], schema=FRAME_SCHEMAS["host_lines"], orient="row")
    node = (
        "fx_generated_a.py",
        5,
        "relu",
        None,
        -1,
        '  File "net.py", line 3, in forward',
        "net.py",
        3,
        "y",
        "[]",
        None,
    )
    fields["fx_nodes"] = pl.DataFrame([node], schema=FRAME_SCHEMAS["fx_nodes"], orient="row")
    fields["fx_code"] = pl.DataFrame([("c1.py", "x = 1")], schema=FRAME_SCHEMAS["fx_code"], orient="row")
    counter = (-5_000, 3, "模型 power", 312.5, "W", 0)
    fields["counters"] = pl.DataFrame([counter], schema=FRAME_SCHEMAS["counters"], orient="row")
    return Trace(**fields, meta=meta, problems=problems)


def snapshot_frames() -> dict[str, pl.DataFrame]:
    """One segment with one block, how that came about, and a range that has not ended."""
    rows: dict[str, tuple[object, ...]] = {
        "segments": ("cuda:0", 2**63, 2**21, 7, "small", "0.0", False, 0),
        "blocks": (0, 2**63, 512, 500, "active_allocated", None),
        "history": (5, "cuda:0", "alloc", 2**63, 500, None, 7, None, None, "note", 0),
        "annotations": ("模型", "cuda:0", 4, None),
    }
    return {name: pl.DataFrame([row], schema=FRAME_SCHEMAS[name], orient="row") for name, row in rows.items()}


def graph_frames() -> dict[str, pl.DataFrame]:
    """One call of an op with one tensor."""
    op = (1, "aten::mm", -1, 2, None, "aten::mm(Tensor self)", "", "#5 float [4, 3]", "")
    tensor = (0, "input", 0, 5, 6, 0, 48, "float", "[4, 3]", "cpu")
    return {
        "graph_ops": pl.DataFrame([op], schema=FRAME_SCHEMAS["graph_ops"], orient="row"),
        "graph_tensors": pl.DataFrame([tensor], schema=FRAME_SCHEMAS["graph_tensors"], orient="row"),
    }


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_saved(full_trace(), tmp_path_factory.mktemp("good") / "run.torchprof").read_bytes()


@pytest.fixture
def saved(good: bytes, tmp_path: Path) -> Path:
    """Return a file of the test's own, which it may change."""
    path = tmp_path / "run.torchprof"
    path.write_bytes(good)
    return path


def rewritten(path: Path, **changed: bytes | None) -> Path:
    """Write the archive anew with other entries; None leaves one out."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    names = {name.replace(".", "_"): name for name in entries}
    entries |= {names[key]: data for key, data in changed.items()}  # type: ignore[dict-item]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            if data is not None:
                archive.writestr(name, data)
    return path


def head_with(path: Path, **fields: Any) -> Path:
    with zipfile.ZipFile(path) as archive:
        head = json.loads(archive.read("torchprof.json"))
    return rewritten(path, torchprof_json=json.dumps(head | fields).encode())


def arrow(frame: pl.DataFrame, folder: Path, **options: Any) -> bytes:
    frame.write_ipc(folder / "frame.arrow", **options)
    return (folder / "frame.arrow").read_bytes()


def test_a_saved_run_reads_back_exactly(saved: Path) -> None:
    assert_same(full_trace(), load(saved).trace)


def test_a_report_saves_itself_and_empty_runs_too(tmp_path: Path) -> None:
    report = Report(make_trace())
    assert_same(report.trace, load(report.save(tmp_path / "empty.torchprof")).trace)


def test_a_run_that_was_saved_before_lines_and_modules_were_watched_has_none(saved: Path, tmp_path: Path) -> None:
    events = arrow(
        full_trace().events.drop(
            "launch_config", "concrete_inputs", "collective", "overload", "script_modules", "kernel", *GRAPH_COLUMNS
        ),
        tmp_path,
    )
    older = head_with(rewritten(saved, sites_arrow=None, scopes_arrow=None, events_arrow=events), version=1)
    trace = load(older).trace
    assert (trace.sites.height, trace.scopes.height) == (0, 0)
    assert trace.events.drop(
        "launch_config", "concrete_inputs", "collective", "overload", "script_modules", "kernel", *GRAPH_COLUMNS
    ).equals(
        full_trace().events.drop(
            "launch_config", "concrete_inputs", "collective", "overload", "script_modules", "kernel", *GRAPH_COLUMNS
        )
    )


def test_a_run_that_was_saved_before_counters_were_read_has_none(saved: Path, tmp_path: Path) -> None:
    events = arrow(full_trace().events.drop("kernel", *GRAPH_COLUMNS), tmp_path)
    older = load(head_with(rewritten(saved, counters_arrow=None, events_arrow=events), version=8)).trace
    assert older.counters.height == 0
    assert older.counters.schema == full_trace().counters.schema
    assert older.storages.equals(full_trace().storages)


def test_a_run_that_was_saved_before_lines_of_imports_were_noted_has_none(saved: Path, tmp_path: Path) -> None:
    events = arrow(full_trace().events.drop("kernel", *GRAPH_COLUMNS), tmp_path)
    older = load(head_with(rewritten(saved, host_lines_arrow=None, events_arrow=events), version=10)).trace
    assert older.host_lines.height == 0
    assert older.waits.equals(full_trace().waits)


def test_a_run_that_was_saved_before_nodes_of_compiled_graphs_had_names_has_none(saved: Path, tmp_path: Path) -> None:
    events = arrow(full_trace().events.drop(GRAPH_COLUMNS), tmp_path)
    older = load(head_with(rewritten(saved, fx_nodes_arrow=None, events_arrow=events), version=12)).trace
    assert older.fx_nodes.height == 0
    assert older.sites.equals(full_trace().sites)


def test_a_run_that_was_saved_before_nodes_of_cuda_graphs_were_kept_has_none(saved: Path, tmp_path: Path) -> None:
    events = arrow(full_trace().events.drop(GRAPH_COLUMNS), tmp_path)
    found = load(head_with(rewritten(saved, events_arrow=events), version=14)).trace.events
    assert found.columns == full_trace().events.columns
    assert found["graph_node"].null_count() == found["annotation"].null_count() == found.height > 0


def test_a_run_that_was_saved_before_launches_of_kernels_were_kept_has_none(saved: Path, tmp_path: Path) -> None:
    events = full_trace().events
    older = head_with(
        rewritten(
            saved,
            events_arrow=arrow(
                events.drop(
                    "launch_config",
                    "concrete_inputs",
                    "collective",
                    "overload",
                    "script_modules",
                    "kernel",
                    *GRAPH_COLUMNS,
                ),
                tmp_path,
            ),
        ),
        version=3,
    )
    found = load(older).trace.events
    assert found.columns == events.columns
    assert found["launch_config"].null_count() == found.height > 0


def test_a_run_that_was_saved_before_shapes_of_modules_were_kept_has_none(saved: Path, tmp_path: Path) -> None:
    sites = full_trace().sites.drop("inputs", "outputs")
    events = arrow(
        full_trace().events.drop(
            "launch_config", "concrete_inputs", "collective", "overload", "script_modules", "kernel", *GRAPH_COLUMNS
        ),
        tmp_path,
    )
    older = head_with(rewritten(saved, sites_arrow=arrow(sites, tmp_path), events_arrow=events), version=2)
    found = load(older).trace.sites
    assert found.drop("inputs", "outputs").equals(sites)
    assert found.select("inputs", "outputs").rows() == [(None, None)]


def test_a_run_that_was_saved_before_values_of_inputs_were_kept_has_none(saved: Path, tmp_path: Path) -> None:
    events = full_trace().events
    older = head_with(
        rewritten(
            saved,
            events_arrow=arrow(
                events.drop("concrete_inputs", "collective", "overload", "script_modules", "kernel", *GRAPH_COLUMNS),
                tmp_path,
            ),
        ),
        version=5,
    )
    found = load(older).trace.events
    assert found.columns == events.columns
    assert found["concrete_inputs"].null_count() == found.height > 0


def test_a_run_that_was_saved_before_collectives_were_kept_has_none(saved: Path, tmp_path: Path) -> None:
    events = full_trace().events
    older = head_with(
        rewritten(
            saved,
            events_arrow=arrow(
                events.drop("collective", "overload", "script_modules", "kernel", *GRAPH_COLUMNS), tmp_path
            ),
        ),
        version=6,
    )
    found = load(older).trace.events
    assert found["collective"].null_count() == found.height > 0


def test_a_run_that_was_saved_before_overloads_and_modules_of_torchscript_were_kept_has_none(
    saved: Path, tmp_path: Path
) -> None:
    events = full_trace().events
    older = head_with(
        rewritten(
            saved, events_arrow=arrow(events.drop("overload", "script_modules", "kernel", *GRAPH_COLUMNS), tmp_path)
        ),
        version=7,
    )
    found = load(older).trace.events
    assert found["script_modules"].null_count() == found["overload"].null_count() == found.height > 0


def test_a_run_that_was_saved_before_storages_were_noted_does_not_know_them(saved: Path, tmp_path: Path) -> None:
    events = arrow(full_trace().events.drop("overload", "script_modules", "kernel", *GRAPH_COLUMNS), tmp_path)
    trace = load(head_with(rewritten(saved, storages_arrow=None, events_arrow=events), version=7)).trace
    assert (trace.storages.height, trace.meta.knows_storages) == (0, False)


def test_a_run_that_was_saved_before_kernels_of_launches_were_kept_has_none(saved: Path, tmp_path: Path) -> None:
    events = full_trace().events
    older = head_with(rewritten(saved, events_arrow=arrow(events.drop("kernel", *GRAPH_COLUMNS), tmp_path)), version=11)
    found = load(older).trace.events
    assert found.columns == events.columns
    assert found["kernel"].null_count() == found.height > 0


def test_a_run_of_this_version_has_all_columns(saved: Path, tmp_path: Path) -> None:
    sites = full_trace().sites.drop("inputs", "outputs")
    with pytest.raises(IngestError, match="unexpected columns"):
        load(rewritten(saved, sites_arrow=arrow(sites, tmp_path)))


def test_content_and_not_the_name_says_that_a_file_is_a_saved_run(saved: Path) -> None:
    renamed = saved.rename(saved.with_name("trace.json"))
    assert is_saved(renamed)
    assert load(renamed).trace.meta.torch_version == "2.13.0"


def test_several_cycles_stay_apart_when_saved(tmp_path: Path) -> None:
    data = b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1}]}'
    trace = read_chrome([data, data.replace(b'"ts": 5', b'"ts": 9')])
    assert trace.events["cycle"].to_list() == [0, 1]
    assert_same(trace, load(write_saved(trace, tmp_path / "run.torchprof")).trace)


def test_equal_runs_are_equal_files(saved: Path, tmp_path: Path) -> None:
    assert write_saved(full_trace(), tmp_path / "again").read_bytes() == saved.read_bytes()


def test_another_zip_is_not_a_saved_run(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.torchprof", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(NotATraceError, match="zip archive, not a PyTorch trace"):
        load(tmp_path / "a.torchprof")


def test_a_cut_off_run_says_so(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(IngestError, match=r"run\.torchprof: the saved run is damaged or cut off .*save it again"):
        load(saved)


def test_a_flipped_bit_is_found(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    data[data.index(b"events.arrow") + 400] ^= 16
    saved.write_bytes(data)
    with pytest.raises(IngestError, match="damaged"):
        load(saved)


def test_a_missing_entry_is_reported_by_name(saved: Path) -> None:
    with pytest.raises(IngestError, match=r"flows\.arrow"):
        load(rewritten(saved, flows_arrow=None))


def test_a_run_of_a_newer_version_is_opened_as_far_as_it_is_known(saved: Path, tmp_path: Path) -> None:
    whole = full_trace()
    flows = arrow(whole.flows.with_columns(pl.lit(1).alias("of_tomorrow")), tmp_path, compression="uncompressed")
    events = arrow(whole.events.drop("overload"), tmp_path, compression="uncompressed")
    newer = rewritten(saved, flows_arrow=flows, events_arrow=events, counters_arrow=None)
    newer = head_with(newer, version=SAVED_VERSION + 1, more={"a": 1})
    with zipfile.ZipFile(newer, "a") as archive:
        archive.writestr("tomorrow.arrow", flows)
    found = load(newer)
    # A column and a table are not known; what is missing is empty.
    (note,) = (problem for problem in found.problems if problem.code == "file.newer_run")
    assert "2 of its columns and tables" in note.message
    assert found.trace.flows.equals(whole.flows)
    assert found.trace.events.drop("overload").equals(whole.events.drop("overload"))
    assert found.trace.events["overload"].null_count() == whole.events.height
    assert found.trace.counters.height == 0
    assert found.summary()
    # Saved here, it is one of this version.
    assert_same(found.trace, load(found.save(tmp_path / "again.torchprof")).trace)


@pytest.mark.parametrize("changed", [{"meta": {"title": 3}}, {"problems": None}])
def test_a_newer_version_whose_head_is_not_as_expected_says_how_to_update(saved: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(IngestError, match=r"newer torchprof-magic.*pip install -U"):
        load(head_with(saved, version=SAVED_VERSION + 1, **changed))


def test_a_newer_version_without_what_every_row_needs_says_how_to_update(saved: Path, tmp_path: Path) -> None:
    flows = arrow(full_trace().flows.drop("kind"), tmp_path, compression="uncompressed")
    with pytest.raises(IngestError, match=r"newer torchprof-magic.*kind in flows.*pip install -U"):
        load(head_with(rewritten(saved, flows_arrow=flows), version=SAVED_VERSION + 1))


def test_a_newer_version_with_a_damaged_table_says_how_to_update(saved: Path) -> None:
    with pytest.raises(IngestError, match=r"newer torchprof-magic.*events.*pip install -U"):
        load(head_with(rewritten(saved, events_arrow=b"no table"), version=SAVED_VERSION + 1))


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "1"},
        {"version": None},
        {"format": "other"},
        {"meta": {"title": 3}},
        {"meta": []},
        {"problems": [{"code": 1}]},
        {"problems": None},
    ],
)
def test_a_head_of_a_wrong_form_is_refused(saved: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(IngestError, match=r"torchprof\.json in the saved run"):
        load(head_with(saved, **fields))


@pytest.mark.parametrize("head", [b"[]", b"3", b"{", b"\xff", b"[" * 100_000])
def test_an_invalid_head_is_refused(saved: Path, head: bytes) -> None:
    with pytest.raises(IngestError, match="save"):
        load(rewritten(saved, torchprof_json=head))


def test_other_columns_are_refused(saved: Path, tmp_path: Path) -> None:
    wrong = full_trace().flows.with_columns(pl.col("source").cast(pl.Int64))
    with pytest.raises(IngestError, match=r"flows of the saved run have unexpected columns.*source"):
        load(rewritten(saved, flows_arrow=arrow(wrong, tmp_path, compression="uncompressed")))


def test_columns_that_a_newer_polars_wrote_are_refused_with_both_versions(saved: Path, tmp_path: Path) -> None:
    wrong = full_trace().flows.with_columns(pl.col("source").cast(pl.Int64))
    odd = rewritten(saved, flows_arrow=arrow(wrong, tmp_path, compression="uncompressed"))
    here = re.escape(pl.__version__)
    with pytest.raises(IngestError, match=rf"polars 999\.1\.0, which polars {here} .*flows.*-U polars"):
        load(head_with(odd, polars="999.1.0rc2\x1b[31m"))


@pytest.mark.parametrize("version", ["", "1.0.0", pl.__version__, "new", "٣.0"])
def test_columns_that_no_newer_polars_wrote_are_not_said_to_be_of_one(
    saved: Path, tmp_path: Path, version: str
) -> None:
    wrong = full_trace().flows.with_columns(pl.col("source").cast(pl.Int64))
    odd = rewritten(saved, flows_arrow=arrow(wrong, tmp_path, compression="uncompressed"))
    with pytest.raises(IngestError, match="the flows of the saved run have unexpected columns"):
        load(head_with(odd, polars=version))


def test_a_run_that_a_newer_polars_saved_is_read_if_its_columns_are_as_expected(saved: Path) -> None:
    assert_same(full_trace(), load(head_with(saved, polars="999.0")).trace)


def test_columns_that_are_compressed_twice_are_refused_before_they_are_unpacked(saved: Path, tmp_path: Path) -> None:
    for compression in ("zstd", "lz4"):
        packed = arrow(full_trace().flows, tmp_path, compression=compression)
        with pytest.raises(IngestError, match=r"flows of the saved run are damaged .*compressed twice"):
            load(rewritten(saved, flows_arrow=packed))


@pytest.mark.parametrize("data", [b"", b"PAR1....PAR1", b"ARROW1\0\0ARROW1", b"ARROW1" + b"\xff" * 99 + b"ARROW1"])
def test_bytes_that_are_not_an_arrow_file_are_refused(saved: Path, data: bytes) -> None:
    with pytest.raises(IngestError, match="damaged"):
        load(rewritten(saved, steps_arrow=data))


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("flows", "source", 99),
        ("flows", "target", -1),
        ("events", "lane", 7),
        ("events", "parent", 3),
        ("memory", "event", 50),
        ("blocks", "segment", 1),
        ("history", "stack", 50),
    ],
)
def test_a_row_number_that_names_no_row_is_refused(
    saved: Path, tmp_path: Path, name: str, column: str, value: int
) -> None:
    frame = getattr(full_trace(), name).with_columns(pl.lit(value, pl.Int32).alias(column))
    entry = arrow(frame, tmp_path, compression="uncompressed")
    with pytest.raises(IngestError, match="the saved run is damaged"):
        load(rewritten(saved, **{f"{name}_arrow": entry}))


def test_a_zip_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.torchprof"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torchprof.json", "{}")
        with archive.open("events.arrow", "w") as entry:
            for _ in range(300):
                entry.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(IngestError, match="far more than any real run"):
        load(path)


def test_every_real_trace_survives_saving(traces: Path, tmp_path: Path) -> None:
    for path in sampled(sorted(traces.glob("0*.json.gz"))):
        trace = load(path).trace
        saved = write_saved(trace, tmp_path / "run.torchprof")
        assert_same(trace, load(saved).trace)


NEVER_NULL = [(name, one.name) for name, columns in FRAME_COLUMNS.items() for one in columns if not one.is_nullable]


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        *((name, column, None) for name, column in sampled(NEVER_NULL)),
        ("events", "depth", 2**31 - 1),
        ("events", "depth", 1),
        ("events", "name", "x" * (MAX_NAME_CHARS + 1)),
        ("events", "shapes", "x" * (MAX_JSON_CHARS + 1)),
        ("events", "step", -1),
        ("events", "start_ns", -1),
        ("events", "dur_ns", 2**62),
        ("lanes", "name", "x" * 5_000_000),
        ("memory", "device", "x" * 301),
        ("memory", "time_ns", 2**62 + 1),
        ("steps", "number", 2**31 - 1),
        ("stacks", "line", -3),
        ("segments", "total_bytes", -1),
        ("blocks", "size_bytes", -1),
        ("history", "user_metadata", "x" * 301),
        ("counters", "value", float("nan")),
        ("counters", "value", float("inf")),
        ("counters", "value", -1e301),
        ("counters", "time_ns", 2**62 + 1),
        ("counters", "name", "x" * (MAX_NAME_CHARS + 1)),
        ("counters", "unit", "x" * 301),
    ],
)  # fmt: skip
def test_a_value_that_no_trace_has_is_refused_when_the_run_is_read(
    saved: Path, tmp_path: Path, name: str, column: str, value: object
) -> None:
    frame = getattr(full_trace(), name)
    assert frame.height, "the trace must have a row to spoil"
    spoilt = frame.with_columns(pl.lit(value).cast(frame.schema[column]).alias(column))
    entry = arrow(spoilt, tmp_path, compression="uncompressed")
    with pytest.raises(IngestError, match=rf"the saved run is damaged \(.*{column}.*in {name}\); save it again"):
        load(rewritten(saved, **{f"{name}_arrow": entry}))


def test_events_and_allocations_in_a_wrong_order_are_refused(saved: Path, tmp_path: Path) -> None:
    events = full_trace().events.with_columns(pl.lit(-1, pl.Int32).alias("parent"), pl.lit(0, pl.Int32).alias("depth"))
    entry = arrow(events.reverse(), tmp_path, compression="uncompressed")
    with pytest.raises(IngestError, match="events in a wrong order"):
        load(rewritten(saved, events_arrow=entry))


def test_a_run_saved_before_devices_had_names_still_opens(saved: Path) -> None:
    assert load(head_with(saved, meta={"device_names": ["H100"]})).trace.meta.devices == ()


def test_a_device_name_of_megabytes_is_shortened_wherever_it_comes_from(saved: Path) -> None:
    assert load(head_with(saved, meta={"devices": [[3, "x" * 5_000_000]]})).trace.meta.devices[0][1] == "x" * 299 + "…"
    meta = {"device_names": ["x" * 5_000_000], "title": "y" * 5_000_000, "extra": [["k" * 500, "v" * 500]]}
    found = load(head_with(saved, meta=meta)).trace.meta
    assert [len(text) for text in (*found.device_names, found.title, *found.extra[0])] == [300] * 4
    named = make_trace(span("a", 0, 1), deviceProperties=[{"name": "x" * 5_000_000}] * 3)
    assert [len(name) for name in named.meta.device_names] == [300]
    assert len(Problem(code="a.b", severity="info", count=1, message="m" * 10**6).message) == 5_000


@pytest.mark.parametrize(
    "fields",
    [
        {"meta": {"start_unix_ns": 10**30}},
        {"meta": {"rank": -(10**30)}},
        {"meta": {"plain_step_ns": [0] * 1_000_001}},
        {"problems": [{"code": "a.b", "severity": "info", "count": 1, "message": ""}] * 1_001},
    ],
)
def test_numbers_and_lists_beyond_anything_that_is_saved_are_refused(saved: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(IngestError, match=r"impossible values|more than 1,000 notes"):
        load(head_with(saved, **fields))


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_run_that_is_packed_in_another_way_is_refused_before_it_is_unpacked(saved: Path, compression: int) -> None:
    with zipfile.ZipFile(saved) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    with pytest.raises(IngestError, match="packed in a way that torchprof-magic does not use"):
        load(saved)


def test_whatever_byte_of_the_zip_is_changed_the_run_is_read_or_refused(saved: Path) -> None:
    good = saved.read_bytes()
    directory = good.index(b"PK\x01\x02")
    values = (0x00, 0x09, 0x0E, 0xFF)
    # Four bytes in a row get a value each, so every byte in so many is one of each in turn.
    for at in [*sampled(range(60), 11), *sampled(range(directory, len(good)), 11)]:
        saved.write_bytes(good[:at] + bytes((values[at % 4],)) + good[at + 1 :])
        with contextlib.suppress(IngestError):
            load(saved)


def test_names_in_a_trace_are_bounded_so_that_it_can_be_saved_and_read(tmp_path: Path) -> None:
    long = "é" * 1_000_000
    trace = make_trace(
        span(long, 0, 9),
        span("shapes", 1, 1, **{"Input Dims": [long]}),
        span("stack", 3, 1, **{"Call stack": f"{long};b"}),
        span("thread", 5, 1) | {"tid": long},
        span("process", 5, 1, cat="odd") | {"pid": long},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": long}},
        {"ph": "s", "id": 1, "cat": long, "pid": 7, "tid": 1, "ts": 1},
    )
    assert max(trace.events["name"].cast(pl.String).str.len_chars()) == MAX_NAME_CHARS
    assert trace.events["shapes"].null_count() == trace.events.height
    assert {problem.code for problem in trace.problems} >= {"chrome.long_text", "chrome.odd_value"}
    assert_same(load(write_saved(trace, tmp_path / "run.torchprof")).trace, trace)
