"""The commands of ``%torchprof``."""

from __future__ import annotations

import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from made_ranks import write_job
from support import chrome, span

from torchprof_magic.capture.checks import doctor
from torchprof_magic.ipython import commands
from torchprof_magic.ipython.extension import load, unload
from torchprof_magic.ipython.flags import split_flags
from torchprof_magic.ipython.magics import TorchProfMagics
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Say = Callable[[str], str]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("TORCHPROF_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(this_process, "_reports", [])
    monkeypatch.setattr(this_process, "_cells", type(this_process._cells)(maxlen=3))
    monkeypatch.setattr(this_process, "_entries", type(this_process._entries)(maxlen=3))
    found: Any = InteractiveShell()
    load(found)
    found.run_cell("import torch\nx = torch.ones(8, 8)", store_history=True)
    yield found
    unload(found)


@pytest.fixture
def say(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a cell and return its output."""

    def run(cell: str) -> str:
        shell.run_cell(cell, store_history=True)
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run


def test_a_statement_is_recorded_and_its_value_is_returned(shell: InteractiveShell, say: Say) -> None:
    say("total = %torchprof -q -o run (x @ x).sum().item()")
    assert shell.user_ns["total"] == 512
    assert "aten::mm" in shell.user_ns["run"].ops["name"].to_list()


def test_flags_before_a_statement_are_those_of_the_cell_magic(shell: InteractiveShell, say: Say) -> None:
    say('%torchprof -q --preset memory --no-memory -o run {"a": x}["a"].sum()')
    assert shell.user_ns["run"].trace.meta.has_shapes
    assert not shell.user_ns["run"].trace.meta.has_memory


def test_a_loop_on_one_line_is_stepped(shell: InteractiveShell, say: Say) -> None:
    say("%torchprof -q -o run for i in range(4): x @ x")
    assert shell.user_ns["run"].steps["number"].to_list() == [2, 3]


def test_an_error_in_a_statement_has_the_line_of_the_statement(shell: InteractiveShell) -> None:
    result = shell.run_cell("a = 1\n%torchprof -q x @ missing\nb = 2", store_history=True)
    error = result.error_in_exec
    assert isinstance(error, NameError)
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_lineno == 2
    assert "b" not in shell.user_ns


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x @ x", ("", "x @ x")),
        ("--shapes -o r x", ("--shapes -o r", "x")),
        ("--wait 2 --no-memory f(--x)", ("--wait 2 --no-memory", "f(--x)")),
        ("--activities 'cpu, cuda' f()", ("--activities 'cpu, cuda'", "f()")),
        ("-x.sum()", ("", "-x.sum()")),
        ("-q -- --x", ("-q", "--x")),
        ("--unknown f()", ("--unknown", "f()")),
        ("--snapshot f()", ("--snapshot", "f()")),
        ("--snapshot=a.pickle f()", ("--snapshot=a.pickle", "f()")),
        ("--shapes", ("--shapes", "")),
    ],
)
def test_flags_end_where_the_statement_begins(line: str, expected: tuple[str, str]) -> None:
    assert split_flags(line, TorchProfMagics.torchprof.parser) == expected


def test_the_history_lists_every_run_of_the_kernel_and_stays_short(say: Say) -> None:
    assert say("%torchprof history") == "No run has been recorded in this kernel yet.\n"
    for _ in range(5):
        say("%torchprof -q x @ x")
    lines = say("%torchprof history").splitlines()
    assert len(lines) == 3
    pattern = r"  1  \d\d:\d\d:\d\d  In \[5\] .* per step +\d+ events  ▇+.*"
    assert re.fullmatch(pattern, lines[0]), lines[0]


def test_the_bars_of_the_history_have_one_scale_for_all_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        this_process.Entry(unix_s=0.0, title=title, run_id=title, events=1, steps=4, step_ns=step_ns)
        for title, step_ns in (("In [1]", 8e6), ("In [2]", 2e6), ("In [3]", None))
    ]
    commands._list_runs(runs)
    bars = [line.count("▇") for line in capsys.readouterr().out.splitlines()]
    assert bars == [commands.BAR_CHARS, commands.BAR_CHARS // 4, 0]


def test_the_same_cell_run_again_is_compared_by_itself(shell: InteractiveShell, say: Say) -> None:
    say("%%torchprof -q -o first --active 4\nfor i in range(6): x @ x")
    say("%%torchprof -q -o second --active 4\nfor i in range(6): x @ x")
    assert shell.user_ns["first"].change_line == ""
    assert re.fullmatch(
        r"[▼▲] .* (faster|slower) per step than before \(.* %\)(, likely)?|≈ .*: step .* → .*"
        r"|[▼▲] (Less|More) work per step, \w+: step .* → .*",
        shell.user_ns["second"].change_line,
    )


def test_another_cell_is_not_compared(shell: InteractiveShell, say: Say) -> None:
    say("%%torchprof -q --active 4\nfor i in range(6): x @ x")
    say("%%torchprof -q -o other --active 4\nwhile len(y := [1]) > 2:\n    pass\nfor j in range(6): (x + 1).sum()")
    assert shell.user_ns["other"].change_line == ""


def test_a_saved_run_is_compared_by_name_listed_named_and_deleted(shell: InteractiveShell, say: Say) -> None:
    say("%%torchprof -q --save base-1 --active 4\nfor i in range(6): x @ x")
    said = say("%%torchprof --display text -o run --compare base-1 --active 4\nfor i in range(6): x @ x")
    assert shell.user_ns["run"].change_line
    assert "Error" not in said
    assert "base-1" in say("%torchprof history")
    assert "per step" in say("%torchprof compare base-1 run")
    assert "per step" in say("%torchprof compare base-1")
    say("%torchprof history name base-1 other-1")
    assert "no run is named 'base-1'" in say("%torchprof compare base-1 run")
    assert "Deleted" in say("%torchprof history delete other-1")
    assert "other-1" not in say("%torchprof history")


def test_the_newest_runs_are_kept_as_configured(say: Say) -> None:
    say("%config TorchProfMagics.keep_runs = 2")
    for _ in range(3):
        say("%torchprof -q x @ x")
    kept = [line for line in say("%torchprof history").splitlines() if line.startswith("  run-")]
    assert len(kept) == 2


def test_a_run_to_compare_with_is_looked_for_before_the_cell_runs(shell: InteractiveShell, say: Say) -> None:
    for flags in ("--compare nothing", "--compare last", "--save ../up"):
        said = say(f"%%torchprof {flags}\nran = 1")
        assert "UsageError" in said
        assert "ran" not in shell.user_ns


def test_the_configuration_shows_values_and_how_to_change_them(shell: InteractiveShell, say: Say) -> None:
    shell.run_cell("%config TorchProfMagics.wait = 7")
    said = say("%torchprof config")
    assert "%config TorchProfMagics.NAME = VALUE" in said
    assert re.search(r"wait +7 +Steps to skip", said)
    assert re.search(r"active +- +Steps to record", said)


def test_the_doctor_checks_the_machine_and_the_last_run(say: Say) -> None:
    said = say("%torchprof doctor")
    assert f"✓ torch {torch.__version__} can record these activities: cpu" in said
    assert "✓ No other profiler is running." in said
    assert "No run has been recorded in this kernel yet." in said
    say("%torchprof -q 1")
    said = say("%torchprof doctor")
    # On a busy machine the statement is held up, and there is more to say than that nothing was recorded.
    assert re.search(r"Last run, In \[3\]: \w", said)
    assert "· No torch operation ran in the recorded steps. To step another loop" in said


def test_the_doctor_reports_problems_and_what_to_do(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE_ROOM_BYTES", 1 << 60)
    say("p = torch.profiler.profile()\np.start()")
    said = say("%torchprof doctor")
    assert "▲ A torch profiler is already running on this thread. Leave its with-block" in said
    assert re.search(r"▲ Traces are written to .* are free\. Free space, or set TMPDIR", said)
    assert say("%torchprof off") == "The running profiler was stopped.\n"
    assert "✓ No other profiler is running." in say("%torchprof doctor")


def test_prime_prints_when_there_is_nothing_to_do(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    assert say("%torchprof prime").startswith("Nothing to do: CUDA needs no preparation here")
    monkeypatch.setattr(commands, "prime", lambda: True)
    assert say("%torchprof prime") == "CUDA graphs captured from now on can be recorded.\n"


def test_a_snapshot_is_refused_where_there_is_no_device_and_the_statement_does_not_run(say: Say) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a device")
    said = say("%torchprof --snapshot print('it ran')")
    assert "UsageError: --snapshot needs an accelerator" in said
    assert "it ran\n" not in said


def test_a_memory_snapshot_is_opened_like_any_other_file(say: Say, tmp_path: Path) -> None:
    entries = [{"action": "alloc", "size": 5_000_000, "addr": 1, "time_us": 1}]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [entries]}, 4))
    assert "Memory on cuda:0: peak 4.77 MiB at 0 ns" in say(f"%torchprof load {path}")


def test_a_file_is_opened_and_kept_under_a_name(shell: InteractiveShell, say: Say, tmp_path: Path) -> None:
    path = tmp_path / "my trace.json"
    path.write_bytes(chrome(span("aten::mm", 1, 2)))
    assert "aten::mm" in say(f"%torchprof load '{path}' -o run")
    assert shell.user_ns["run"].ops["name"].to_list() == ["aten::mm"]
    shell.user_ns["where"] = str(tmp_path)
    assert "aten::mm" in say("%torchprof load '{where}/my trace.json'")
    assert "written to" in say(f"%torchprof save {tmp_path}/run.torchprof")
    assert "written to" in say(f"%torchprof export {tmp_path}/run.csv")
    assert (tmp_path / "run.torchprof").exists()
    assert (tmp_path / "run.csv").exists()


def test_load_opens_the_ranks_of_a_job(say: Say, shell: InteractiveShell, tmp_path: Path) -> None:
    write_job(tmp_path, {2: 200.0})
    assert "Rank 2 is late" in say(f"%torchprof load '{tmp_path}/*.json' -o ranks")
    assert shell.user_ns["ranks"].ranks.height == 4


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("load", "%torchprof load takes FILE [-o NAME]"),
        ("load a b", "put quotes around a name with spaces"),
        ("load a -o 1x", "-o needs a valid variable name"),
        ("load /no/such.json", "no such file"),
        ("save", "%torchprof save takes FILE"),
        ("save a.torchprof", "No run has been recorded"),
        ("last", "No run has been recorded"),
        ("last one", "%torchprof last takes no arguments"),
        ("history 5", "%torchprof history takes no arguments"),
        ("--shapes", "expected a statement"),
        ("--keep-last 3 x", "--keep-last needs --trace-dir"),
        ("--trace-dir /proc/nowhere x", "cannot store traces in /proc/nowhere"),
        ("traces", "%torchprof traces takes DIR"),
        ("--quak x", "unrecognized arguments: --quak"),
        ("--memroy x", "unrecognized arguments: --memroy; did you mean --memory?"),
        ("dance", "neither a command nor a statement"),
        ("dance all night", "neither a command nor a statement"),
        ("load 'a", "No closing quotation"),
    ],
)
def test_a_mistake_is_reported_in_one_line(say: Say, line: str, says: str) -> None:
    said = say(f"%torchprof {line}")
    assert said.startswith("UsageError: ")
    assert says in said


def test_kept_traces_and_their_uploads_are_listed(say: Say, tmp_path: Path) -> None:
    assert say("%torchprof uploads").startswith("This kernel has not uploaded any traces. Unfinished uploads")
    assert say("%torchprof uploads --retry") == "Retrying 0 failed uploads.\n"
    assert say(f"%torchprof traces {tmp_path}") == f"No kept traces in {tmp_path}.\n"
    say(f"%torchprof -q --trace-dir {tmp_path} --filename {{cell}}-{{run_name}}.json --run-name 'net' --gzip x @ x")
    said = say(f"%torchprof traces {tmp_path}")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  kept       +\S+ k?B  cycle 0, step 0, rank 0 +5-net\.json\.gz\n", said
    ), said


def test_metadata_on_the_line_is_json_or_a_string(say: Say, tmp_path: Path) -> None:
    say(f"%torchprof -q --trace-dir {tmp_path} --filename a.json --metadata lr=0.1 --metadata 'run=my net' x @ x")
    found = json.loads((tmp_path / "a.json").read_bytes())
    assert (found["lr"], found["run"]) == (0.1, "my net")
    assert "--metadata takes KEY=JSON" in say("%torchprof --metadata lr x @ x")


@pytest.mark.parametrize("line", ["", "help", "--help"])
def test_help_lists_every_command(say: Say, line: str) -> None:
    said = say(f"%torchprof {line}")
    for name in ("last", "load", "save", "export", "history", "config", "doctor", "traces", "uploads", "prime", "off"):
        assert f"%torchprof {name}" in said


@pytest.mark.parametrize(("line", "value"), [("last = 5", 5), ("load = x.sum().item()", 64), ("history = [1]", [1])])
def test_a_variable_with_the_name_of_a_command_is_a_variable(
    shell: InteractiveShell, say: Say, line: str, value: object
) -> None:
    say(f"%torchprof -q {line}")
    say(f"%torchprof {line}")
    assert shell.user_ns[line.split(maxsplit=1)[0]] == value


def test_a_statement_sees_the_variables_of_the_function_around_it(say: Say) -> None:
    body = "    inner = x * 2\n    found = %torchprof -q (inner @ inner).sum().item()\n    return found\n"
    said = say(f"def f():\n{body}print(f())")
    assert said.splitlines()[-1] == "2048.0"


def test_a_statement_leaves_the_source_of_its_cell_as_it_was(say: Say) -> None:
    said = say("import inspect\ndef h():\n    return 3\n%torchprof -q x @ x\nprint(inspect.getsource(h), h())")
    assert said.endswith("def h():\n    return 3\n 3\n")


@pytest.mark.parametrize("name", ["class", "1x", "a.b", "lambda"])
def test_a_report_needs_the_name_of_a_variable(say: Say, name: str) -> None:
    assert "-o needs a valid variable name" in say(f"%torchprof -o {name} x @ x")
    assert "-o needs a valid variable name" in say(f"%torchprof load a.json -o {name}")


def test_a_loaded_file_has_its_name_in_the_history(say: Say, tmp_path: Path) -> None:
    (tmp_path / "some.json").write_bytes(chrome(span("aten::mm", 1, 2)))
    say(f"%torchprof load {tmp_path}/some.json")
    (line,) = say("%torchprof history").splitlines()
    assert "some.json" in line
    assert line.endswith(" 1 event")


def test_in_a_terminal_a_report_as_the_last_line_is_its_summary(shell: InteractiveShell, say: Say) -> None:
    say("%torchprof -q -o run x @ x")
    assert say("run").removeprefix("Out[3]: ") == "\n" + shell.user_ns["run"].summary() + "\n"


def test_names_cannot_write_control_characters_to_the_terminal(say: Say) -> None:
    said = say("%torchprof with torch.profiler.record_function('a\\x1b[31mb\\n\\u202ec'): pass")
    assert "a\\x1b[31mb\\n\\u202ec" in said
    assert "\x1b[31m" not in said


def test_defaults_for_kept_traces_have_no_effect_without_a_folder(shell: InteractiveShell, say: Say) -> None:
    shell.run_cell("%config TorchProfMagics.gzip = True\n%config TorchProfMagics.keep_last = 3")
    assert "UsageError" not in say("%torchprof -q x @ x")
    assert "--gzip needs --trace-dir" in say("%torchprof --gzip x @ x")


def test_metadata_with_a_repeated_key_or_a_key_of_torch_is_refused(say: Say) -> None:
    assert "'a' is given twice" in say("%torchprof --metadata a=1 --metadata a=2 x @ x")
    assert "a key that torch writes itself" in say("%torchprof --metadata traceEvents=[] x @ x")


@pytest.mark.parametrize("body", ["\n", "\n\n", "# nothing\n"])
def test_an_empty_cell_is_recorded_as_one(shell: InteractiveShell, body: str) -> None:
    result = shell.run_cell(f"%%torchprof -q -o run\n{body}", store_history=True)
    assert result.success
