"""Recordings for others: without folders, users, hosts, source text and what tells of the environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support import annotation, make_trace, span

import torchprof_magic as tp
from torchprof_magic.exporters.redaction import Redactor, redacted
from torchprof_magic.model.meta import CellSource, Meta
from torchprof_magic.report.trace_report import Report

SECRETS = ("alice", "secretproject", "bighost", "10.1.2.3", "learning_rate_is_hidden")


def _redactor() -> Redactor:
    return Redactor(frozenset({"alice"}), frozenset({"bighost"}))


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("/home/alice/secretproject/train.py", "folder1/train.py"),
        ("/home/alice/secretproject/train.py(12): main", "folder1/train.py(12): main"),
        ("C:\\Users\\Alice Smith\\secretproject\\train.py", "folder1/train.py"),
        ("~/secretproject/train.py", "folder1/train.py"),
        ("/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py", "site-packages/torch/nn/modules/linear.py"),
        ("/usr/lib/python3.11/threading.py(10): run", "lib/python3.11/threading.py(10): run"),
        ("torch/nn/modules/linear.py(114): forward", "torch/nn/modules/linear.py(114): forward"),
        ("alice@bighost", "user@host"),
        ("run of alice on bighost", "run of user on host"),
        ("malice in bighosts", "malice in bighosts"),
        ("https://alice:pw@example.org/x", "url"),
        ("tcp://10.1.2.3:29500", "url"),
        ("mail alice@example.org", "mail address"),
        ("aten::div", "aten::div"),
        ("a / b", "a / b"),
        ("void at::native::kernel<int>(int const*, float)", "void at::native::kernel<int>(int const*, float)"),
    ],
)
def test_a_text_keeps_what_tells_nothing_of_the_machine(given: str, left: str) -> None:
    assert _redactor().text(given) == left


def test_folders_are_told_apart_and_the_same_ones_stay_the_same() -> None:
    redactor = _redactor()
    found = [redactor.text(path) for path in ("/a/x.py", "/b/x.py", "/a/y.py")]
    assert found == ["folder1/x.py", "folder2/x.py", "folder1/y.py"]


def _report() -> Report:
    events = [annotation("ProfilerStep#1", 0, 100), span("aten::mm", 5, 30)]
    events += [span("/home/alice/secretproject/train.py(3): train", 1, 90, "python_function")]
    meta = Meta(
        title="/home/alice/secretproject/run.json",
        cell=CellSource(label="In [1]", source="learning_rate_is_hidden = 1"),
        extra=(
            ("hostname", "bighost"),
            ("cwd", "/home/alice"),
            ("cupti_version", "22"),
            ("note", "of alice, 10.1.2.3"),
        ),
    )
    return Report(replace(make_trace(*events), meta=meta))


def _all_text(trace: object) -> str:
    frames = [getattr(trace, name) for name in ("events", "lanes", "stacks", "sites", "waits", "host_lines")]
    columns = [column for frame in frames for column in frame.get_columns()]
    texts = [column for column in columns if column.dtype in (pl.String, pl.Categorical)]
    return repr([column.cast(pl.String).to_list() for column in texts]) + repr(trace.meta) + repr(trace.problems)  # type: ignore[attr-defined]


def test_a_recording_for_others_has_no_trace_of_the_machine_or_the_source() -> None:
    before, after = _report(), _report().redacted()
    # The address stands alone in a note, and the host only in metadata that is left out.
    assert [secret for secret in SECRETS if secret in _all_text(before.trace)] == list(SECRETS)
    assert [secret for secret in SECRETS if secret in _all_text(after.trace)] == []
    assert after.trace.meta.extra == (("cupti_version", "22"), ("note", "of user, address"))


def test_numbers_and_names_of_ops_stay() -> None:
    before, after = _report(), _report().redacted()
    assert after.ops.select(pl.exclude("name")).equals(before.ops.select(pl.exclude("name")))
    assert "aten::mm" in after.ops["name"].to_list()
    assert after.step_ns == before.step_ns


def test_it_is_said_what_was_left_out() -> None:
    (told,) = (known for known in _report().redacted().problems if known.code == "run.redacted")
    assert "1 source of the cell" in told.message
    assert "2 entries of the metadata" in told.message
    assert "path" in told.message
    # Once more leaves nothing to leave out, and says so once.
    again = [known for known in _report().redacted().redacted().problems if known.code == "run.redacted"]
    assert [known.message.rpartition(": ")[2] for known in again] == ["nothing."]


def test_files_for_others_are_written_so(tmp_path: Path) -> None:
    report = _report()
    saved = tp.load(report.save(tmp_path / "for_others.torchprof", redact=True))
    page = report.to_html(tmp_path / "for_others.html", redact=True).read_text(encoding="utf-8")
    for secret in SECRETS:
        assert secret not in _all_text(saved.trace)
        assert secret not in page
    assert any(known.code == "run.redacted" for known in saved.problems)
    # The report itself is as it was.
    assert "alice" in _all_text(report.trace)


def test_a_recording_without_secrets_is_the_same_but_for_the_note() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 100), span("aten::mm", 5, 30))
    assert redacted(trace).events.equals(trace.events)
