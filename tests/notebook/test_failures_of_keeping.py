"""Failures of saving and keeping traces, in a real kernel: rows 33 to 38, 41 and 42 of docs/failures.md.

Each test checks what the user sees, what survives, and that the next cell is recorded.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aftermath import (
    LOOP,
    SETUP,
    assert_ended_well,
    assert_is_trace,
    assert_off_and_usable,
    problems,
    wait_for_end,
)
from amount import sampled
from kernels import Kernel, started

from torchprof_magic.capture.torch_api import features

# While one function runs, the kernel cannot write files beyond a size, as on a full disk.
FULL_DISK = """
import functools, resource
def full_disk(owner, name, limit):
    real = getattr(owner, name)
    @functools.wraps(real)
    def call(*args, **kwargs):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            return real(*args, **kwargs)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    setattr(owner, name, call)
    return lambda: setattr(owner, name, real)
def full_folder(name):
    real = torch.profiler.profiler._KinetoProfile.export_chrome_trace
    def export(profiler, path, **flags):
        folder = str(getattr(live_session(), name))
        limit = 2048 if os.path.dirname(path) == folder else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            return real(profiler, path, **flags)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    torch.profiler.profiler._KinetoProfile.export_chrome_trace = export
    return lambda: setattr(torch.profiler.profiler._KinetoProfile, 'export_chrome_trace', real)
from torchprof_magic.capture import live_session
import torchprof_magic.capture.output.finished_cycles as shelf
import torchprof_magic.store.trace_store as files
import torchprof_magic.store.template as template
"""
needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot limit the size of files")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(SETUP + FULL_DISK) as found:
        yield found


@pytest.fixture(scope="module")
def other() -> Iterator[Kernel]:
    with started(SETUP) as found:
        yield found


def kept(folder: Path) -> list[str]:
    """Return the names of the traces in a folder, without the files of the store."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".torchprof"))


def parts(folder: Path) -> list[str]:
    """Return partly written files in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".part", ".tmp", ".part2"))


def raw_path(said: str) -> Path:
    """Return the raw trace whose path is in a message."""
    found = re.search(r"the original is still in (.*?)\)", said)
    assert found is not None, said
    return Path(found[1])


@needs_limits
def test_a_full_disk_under_the_recording_is_said_with_what_is_needed_and_free(kernel: Kernel) -> None:
    """Row 33: no space for the raw trace anywhere. The cell keeps its result, no partial file remains."""
    kernel.run("undo = full_disk(shelf, 'save_cycle', 2048)")
    cell = kernel.run(f"%%torchprof\n{LOOP}'mine'")
    kernel.run("undo()")
    assert_ended_well(cell)
    assert cell.values == ["'mine'"]
    said = problems(kernel)
    assert "capture.not_saved cycle-0.pt.trace.json was not saved: " in said
    assert "it needs about " in said
    assert "No other folder has space." in said
    assert "Free disk space or choose another folder" in said
    assert "was not saved" in cell.static[0]
    folder = re.search(r"free in (\S+)\)", said)
    assert folder is not None
    assert not Path(folder[1]).exists() or list(Path(folder[1]).iterdir()) == []
    assert_off_and_usable(kernel)


def take_elsewhere(said: str) -> Path:
    """Return the trace in another folder whose path is in a message."""
    found = re.search(
        r"capture.saved_elsewhere (\S+) could not be written to .*\. It was saved to (\S+) instead\.", said
    )
    assert found is not None, said
    assert "The file stays there until you delete it" in said
    return Path(found[2]) / found[1]


@needs_limits
@pytest.mark.skipif(not features.HAS_PYTHON_EXPORT, reason="this torch has no export that can be repeated")
def test_a_full_disk_under_the_recording_alone_leaves_the_report_and_a_trace_elsewhere(
    kernel: Kernel, tmp_path: Path
) -> None:
    """Row 33: no space for the raw trace in its folder. The report is shown, and the copy is kept."""
    flags = f"--trace-dir {tmp_path} --filename run.json -o run"
    kernel.run("undo = full_folder('_folder')")
    cell = kernel.run(f"%%torchprof {flags}\n{LOOP}'mine'")
    kernel.run("undo()")
    assert_ended_well(cell)
    assert cell.values == ["'mine'"]
    assert "aten::mul" in cell.static[0]
    assert "could not be written to" in cell.static[0]
    said = problems(kernel)
    assert "capture.not_saved" not in said
    elsewhere = take_elsewhere(said)
    assert elsewhere.parent.parent == tmp_path
    assert_is_trace(elsewhere)
    assert_is_trace(tmp_path / "run.json")
    assert kernel.run("print(run.steps['number'].to_list())").text == "[2, 3, 4]\n"
    kernel.run("del run")
    assert_off_and_usable(kernel)
    assert_is_trace(elsewhere)


@needs_limits
def test_a_full_disk_under_the_kept_traces_leaves_the_older_ones_and_the_report(kernel: Kernel, tmp_path: Path) -> None:
    """Row 33: no space for a copy. The report is shown, the raw trace stays, --keep-last 1 deletes nothing."""
    flags = f"--trace-dir {tmp_path} --filename {{cell}}.json --keep-last 1"
    assert_ended_well(kernel.run(f"%%torchprof {flags}\n{LOOP}"))
    (older,) = kept(tmp_path)
    kernel.run("undo = full_disk(files, 'copy_verified', 2048)")
    cell = kernel.run(f"%%torchprof {flags} -o run\n{LOOP}'mine'")
    kernel.run("undo()")
    assert_ended_well(cell)
    assert cell.values == ["'mine'"]
    said = problems(kernel)
    assert "store.not_stored " in said
    assert re.search(r"File too large \(.* free\); free space or choose another folder", said)
    assert "aten::mul" in cell.static[0]
    assert kept(tmp_path) == [older]
    assert_is_trace(tmp_path / older)
    assert parts(tmp_path) == []
    assert_is_trace(raw_path(said))
    assert_off_and_usable(kernel)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--trace-dir /proc/nowhere", "cannot store traces in /proc/nowhere"),
        ("--trace-dir {file}/traces", "cannot store traces in {file}/traces"),
        ("--execution-trace /proc/nowhere/graph.json", "cannot write traces to /proc/nowhere"),
        ("--trace-dir {locked}", "cannot store traces in {locked}"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_before_the_cell_runs(
    kernel: Kernel, tmp_path: Path, flags: str, says: str
) -> None:
    """Row 34: a path that is not writable, not a folder, or cannot be created."""
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir(mode=0o500)
    if "{locked}" in flags and os.access(tmp_path / "locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    places = {"file": tmp_path / "file", "locked": tmp_path / "locked"}
    kernel.run("ran = False")
    cell = kernel.run(f"%%torchprof {flags.format(**places)}\nran = True\n{LOOP}")
    assert cell.reply["ename"] == "UsageError"
    assert says.format(**places) in cell.reply["evalue"]
    assert "hoose another folder" in cell.reply["evalue"]
    assert kernel.run("print(ran)").text == "False\n"
    assert_off_and_usable(kernel)


def test_a_missing_temporary_folder_is_refused_before_the_cell_runs(kernel: Kernel) -> None:
    """Row 34: TMPDIR names a folder that does not exist."""
    kernel.run("import tempfile\nran, tempfile.tempdir = False, '/nowhere'")
    cell = kernel.run(f"%%torchprof\nran = True\n{LOOP}")
    kernel.run("tempfile.tempdir = None")
    assert cell.reply["ename"] == "UsageError"
    assert "cannot create a temporary folder for the trace" in cell.reply["evalue"]
    assert kernel.run("print(ran)").text == "False\n"
    assert_off_and_usable(kernel)


def test_a_folder_that_vanishes_while_the_cell_runs_is_said(kernel: Kernel, tmp_path: Path) -> None:
    """Row 34: the code of the cell deletes both folders."""
    vanish = (
        "import shutil\nfrom torchprof_magic.capture import live_session\n"
        f"shutil.rmtree(live_session()._folder); shutil.rmtree({str(tmp_path / 'traces')!r})\n"
    )
    cell = kernel.run(f"%%torchprof --trace-dir {tmp_path}/traces\n{vanish}{LOOP}'mine'")
    assert_ended_well(cell)
    assert cell.values == ["'mine'"]
    said = problems(kernel)
    assert "is not available). It was saved to " in said
    elsewhere = take_elsewhere(said)
    assert_is_trace(elsewhere)
    assert len(kept(tmp_path / "traces")) == 1
    assert_off_and_usable(kernel)
    assert_is_trace(elsewhere)
    shutil.rmtree(elsewhere.parent)


@pytest.mark.parametrize(
    ("flag", "template", "says"),
    sampled(  # test_template.py has the others, too
        [
            ("--filename", "../x.json", "cannot contain '/'"),
            ("--filename", "/etc/x.json", "--trace-dir sets the folder"),
            ("--filename", "..", "cannot end in a dot"),
            ("--filename", "{nobody}.json", "choose from run_name, rank, local_rank"),
            ("--filename", "{cycle.__class__}.json", "there is no field {cycle.__class__}"),
            ("--filename", "{cycle[0]}.json", "there is no field {cycle[0]}"),
            ("--filename", "{cycle!r}.json", "this field has no other format"),
            ("--filename", "{cycle:>999999999}.json", "write {cycle}, or {cycle:04d} for leading zeros"),
            ("--filename", "{cycle:099d}.json", "up to 20 digits"),
            ("--filename", "a\\x00b.json", "a file name cannot contain"),
            ("--filename", ".torchprof-mine.json", "names beginning with .torchprof are reserved"),
            ("--run-name", "../../x", "cannot contain '/'"),
            ("--trace-dir", "{folder}/../x", "leads to another folder"),
            ("--trace-dir", "{folder}/{cycle}", "changes during the run"),
        ],
        3,
    ),
)
def test_a_template_that_leaves_the_folder_or_asks_for_gigabytes_is_refused_before_the_cell_runs(
    kernel: Kernel, tmp_path: Path, flag: str, template: str, says: str
) -> None:
    """Row 35: only {name} and {name:04d} are replaced; nothing outside the folder is touched."""
    folder = tmp_path / "traces"
    value = template.replace("{folder}", str(folder))
    flags = f"{flag} '{value}'" + ("" if flag == "--trace-dir" else f" --trace-dir {folder}")
    if "\\x00" in value:
        flags = flags.encode().decode("unicode_escape")
    kernel.run("ran = False")
    body = f"ran = True\n{LOOP}"
    cell = kernel.run(f"get_ipython().run_cell_magic('torchprof', {flags!r}, {body!r})")
    assert cell.reply["ename"] == "UsageError"
    assert says in cell.reply["evalue"]
    assert kernel.run("print(ran)").text == "False\n"
    assert not folder.exists() or kept(folder) == []
    assert kept(tmp_path) in ([], ["traces"])
    assert_off_and_usable(kernel)


def test_two_kernels_that_save_under_one_name_keep_every_trace(kernel: Kernel, other: Kernel, tmp_path: Path) -> None:
    """Row 36: both kernels save under the same name; no file is overwritten; --keep-last ignores other files."""
    flags = f"-q --trace-dir {tmp_path} --filename same.json"
    many = f"for _n in range(5):\n    get_ipython().run_cell_magic('torchprof', {flags!r}, {LOOP!r})"
    (tmp_path / "same.json").write_text("mine")
    begun = [(each, each.ask(many)) for each in (kernel, other)]
    cells = [each.answer(message) for each, message in begun]
    assert [cell.reply["status"] for cell in cells] == ["ok", "ok"]
    assert_off_and_usable(other)
    assert (tmp_path / "same.json").read_text() == "mine"
    names = kept(tmp_path)
    assert sorted(names) == sorted(["same.json", *(f"same-{number}.json" for number in range(2, 12))])
    for name in names[:-1]:
        assert_is_trace(tmp_path / name)
    assert_ended_well(kernel.run(f"%%torchprof --trace-dir {tmp_path} --filename same.json --keep-last 1\n{LOOP}"))
    assert kept(tmp_path) == ["same-12.json", "same.json"]
    assert (tmp_path / "same.json").read_text() == "mine"
    assert_off_and_usable(kernel)


DEADLY = """
import signal
real = files.copy_verified
def armed(*args, **kwargs):
    os.CALL = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
files.copy_verified = armed
"""


@pytest.mark.parametrize("call", sampled(["replace", "write", "fsync"]))
def test_a_kernel_that_dies_while_it_saves_leaves_the_file_that_was_there(
    kernel: Kernel, tmp_path: Path, call: str
) -> None:
    """Row 37: SIGKILL in the middle of a save. The older file stays complete, and the next kernel cleans up."""
    flags = f"--trace-dir {tmp_path} --filename run.json --overwrite"
    assert_ended_well(kernel.run(f"%%torchprof {flags}\n{LOOP}"))
    before = (tmp_path / "run.json").read_bytes()
    with started(SETUP + FULL_DISK + DEADLY.replace("CALL", call)) as doomed:
        doomed.client.execute(f"%%torchprof {flags}\n{LOOP}")
        wait_for_end(doomed)
    assert (tmp_path / "run.json").read_bytes() == before
    assert parts(tmp_path) != []
    assert_ended_well(kernel.run(f"%%torchprof {flags}\n{LOOP}"))
    assert parts(tmp_path) == []
    assert kept(tmp_path) == ["run.json"]
    assert (tmp_path / "run.json").read_bytes() != before
    assert_is_trace(tmp_path / "run.json")
    assert_off_and_usable(kernel)


@needs_limits
def test_packing_that_fails_half_way_leaves_no_packed_file_and_the_raw_one(kernel: Kernel, tmp_path: Path) -> None:
    """Row 38: no space for --gzip. No partial .gz file appears, and the uncompressed trace stays."""
    flags = f"--trace-dir {tmp_path} --filename run.json --gzip"
    kernel.run("undo = full_disk(files, 'copy_verified', 300)")
    cell = kernel.run(f"%%torchprof {flags}\n{LOOP}")
    kernel.run("undo()")
    assert_ended_well(cell)
    said = problems(kernel)
    assert "run.json.gz was not stored" in said
    assert "File too large" in said
    assert (kept(tmp_path), parts(tmp_path)) == ([], [])
    assert_is_trace(raw_path(said))
    assert_ended_well(kernel.run(f"%%torchprof {flags}\n{LOOP}"))
    assert kept(tmp_path) == ["run.json.gz"]
    assert_is_trace(tmp_path / "run.json.gz")
    assert_off_and_usable(kernel)


CLOCK = """
import datetime as _datetime
class Clock(_datetime.datetime):
    at = _datetime.datetime(2026, 10, 25, 0, 59, 59, tzinfo=_datetime.timezone.utc)
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(cls.at.timestamp(), tz)
template.datetime, real_datetime = Clock, template.datetime
"""


def test_a_clock_that_stands_still_or_jumps_back_gives_every_trace_a_name_of_its_own(
    kernel: Kernel, tmp_path: Path
) -> None:
    """Row 41: twice in one second, an hour back as at the end of daylight saving time, and the same second again."""
    kernel.run(CLOCK)
    flags = f"-q --trace-dir {tmp_path}"
    for at in ("0, 59, 59", "0, 59, 59", "1, 59, 59", "0, 59, 59"):
        kernel.run(f"Clock.at = _datetime.datetime(2026, 10, 25, {at}, tzinfo=_datetime.timezone.utc)")
        assert kernel.run(f"%%torchprof {flags}\n{LOOP}").reply["status"] == "ok"
        assert "store." not in problems(kernel)
    names = [f"run-20261025-{time}.pt.trace.json" for time in ("005959-2", "005959-3", "005959", "015959")]
    assert kept(tmp_path) == sorted(names)
    for name in names:
        assert_is_trace(tmp_path / name)
    # The trace that was written last is the newest, whatever the clock shows.
    assert kernel.run(f"%%torchprof {flags} --keep-last 1\n{LOOP}").reply["status"] == "ok"
    assert kept(tmp_path) == ["run-20261025-005959-4.pt.trace.json"]
    kernel.run("template.datetime = real_datetime")
    assert_off_and_usable(kernel)


@pytest.mark.parametrize(
    ("environ", "says"),
    sampled(
        [
            ("WORLD_SIZE='2'", "RANK is not set, although WORLD_SIZE is 2"),
            ("WORLD_SIZE='2', RANK='two'", "RANK is 'two', and WORLD_SIZE is 2"),
            ("WORLD_SIZE='2', RANK='7'", "RANK is '7', and WORLD_SIZE is 2"),
        ],
        2,
    ),
)
def test_a_rank_that_is_not_known_is_said(kernel: Kernel, tmp_path: Path, environ: str, says: str) -> None:
    """Row 42: RANK is unset, not a number, or not below WORLD_SIZE."""
    kernel.run(f"os.environ.update({environ})")
    cell = kernel.run(f"%%torchprof --trace-dir {tmp_path} --filename run.json\n{LOOP}")
    kernel.run("for _name in ('RANK', 'WORLD_SIZE'): os.environ.pop(_name, None)")
    assert_ended_well(cell)
    said = problems(kernel)
    assert f"store.rank_unknown The rank of this process is unknown: {says}." in said
    assert "put {pid} into --filename" in said
    (name,) = kept(tmp_path)
    assert name == ("run-rank7.json" if "7" in says else "run-rank0.json")
    assert_is_trace(tmp_path / name)
    assert_off_and_usable(kernel)


def test_two_processes_that_both_think_they_are_rank_0_keep_both_traces(
    kernel: Kernel, other: Kernel, tmp_path: Path
) -> None:
    """Row 42: two processes have the same rank. Neither trace replaces the other."""
    flags = f"--trace-dir {tmp_path} --filename run.json --run-name job"
    for each in (kernel, other):
        each.run("os.environ.update(WORLD_SIZE='2', RANK='0')")
        assert_ended_well(each.run(f"%%torchprof {flags} -o run\n{LOOP}"))
        assert each.run("print(run.steps['number'].to_list())").text == "[2, 3, 4]\n"
        each.run("for _name in ('RANK', 'WORLD_SIZE'): del os.environ[_name]")
        assert_off_and_usable(each)
    assert kept(tmp_path) == ["run-rank0-2.json", "run-rank0.json"]
    for name in kept(tmp_path):
        assert_is_trace(tmp_path / name)
