"""The flags of a line, a preset and the configuration become the options of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import parse_argstring
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ExecutionTraceObserver, ProfilerActivity

from torchprof_magic.ipython.extension import load, unload
from torchprof_magic.ipython.flags import FlagDefaults, values_of
from torchprof_magic.ipython.magics import TorchProfMagics
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.options import OPTIONS, Kind, ScheduleOptions, profile_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.options import ProfileOptions


def flags_of(kind: Kind) -> dict[str, str]:
    """Return the flags of a kind, each with the name of its option."""
    return {option.flag: name for name, option in OPTIONS.items() if option.kind is kind}


SWITCHES = flags_of(Kind.SWITCH)
OF_ONE_RUN = ("compare", "out", "quiet", "save")
NO_SCHEDULE = ("keep_last", "keep_runs", "step_samples", "step_tokens", "snapshot_entries", "budget_calls")
COUNTS = [name for name in flags_of(Kind.COUNT) if name not in NO_SCHEDULE]
OBJECTS = flags_of(Kind.VARIABLE) | {"schedule": "schedule_function"}


@pytest.fixture
def magics() -> Iterator[TorchProfMagics]:
    shell = InteractiveShell()
    load(shell)
    yield next(known for known in shell.configurables if isinstance(known, TorchProfMagics))
    unload(shell)


def options(magics: TorchProfMagics, line: str, **variables: object) -> ProfileOptions:
    return profile_options(values_of(parse_argstring(TorchProfMagics.torchprof, line), magics, variables))


def switched_on(found: ProfileOptions) -> set[str]:
    return {name for name, option in SWITCHES.items() if getattr(found, option)}


def test_without_flags_details_are_recorded_in_a_cycle_of_their_own_and_the_schedule_follows_the_loop(
    magics: TorchProfMagics,
) -> None:
    found = options(magics, "")
    assert found.is_auto
    times, details, lines = found.passes
    assert (switched_on(times), switched_on(lines)) == (set(), set())
    assert switched_on(details) == {"shapes", "memory", "stack"}
    assert (times.lines, details.lines, lines.lines) == (False, False, True)
    assert len(options(magics, "--preset auto --no-lines").passes) == 2
    assert found.schedule.is_adaptive
    assert found.activities == ()


def test_the_quick_preset_records_nothing_extra(magics: TorchProfMagics) -> None:
    found = options(magics, "--preset quick")
    assert not found.is_auto
    assert switched_on(found) == set()
    assert len(found.passes) == 1


@pytest.mark.parametrize(
    "line",
    [
        *("--active 2", "--wait 1", "--repeat 2", "--schedule plan", "--two-pass", "--lines", "--stack"),
        *("--trace-only", "--all-threads", "--modules", "--overloads", "--sync-events", "--on-trace-ready plan"),
    ],
)
def test_a_flag_that_says_what_to_record_or_when_leaves_nothing_to_be_chosen(
    magics: TorchProfMagics, line: str
) -> None:
    found = options(magics, line, plan=print)
    assert not found.is_auto
    assert found == options(magics, f"--preset quick {line}", plan=print)


@pytest.mark.parametrize(
    "line", ["--quiet", "--budget 5s", "--activities cpu", "--metadata a=1", "--snapshot", "-o run"]
)
def test_a_flag_about_something_else_leaves_the_choice(magics: TorchProfMagics, line: str) -> None:
    assert options(magics, line).is_auto


def test_details_that_are_turned_off_are_left_out_of_the_choice(magics: TorchProfMagics) -> None:
    assert switched_on(options(magics, "--no-memory")) == {"shapes", "stack"}
    assert options(magics, "--no-memory").is_auto
    assert not options(magics, "--no-memory --no-shapes --no-stack").is_auto
    magics.stack = False
    assert switched_on(options(magics, "")) == {"shapes", "memory"}


def test_the_preset_can_be_given_with_what_to_record_and_when(magics: TorchProfMagics) -> None:
    found = options(magics, "--preset auto --flops --active 2")
    assert found.is_auto
    assert switched_on(found) == {"shapes", "memory", "stack", "flops"}
    assert found.schedule.active == 2
    assert switched_on(options(magics, "--preset auto --all-threads").passes[1]) == {"shapes", "stack", "all_threads"}
    with pytest.raises(OptionsError, match="--preset auto and --schedule cannot be combined"):
        options(magics, "--preset auto --schedule plan", plan=print)


@pytest.mark.parametrize("name", list(SWITCHES))
def test_every_switch_can_be_turned_on_and_off_on_the_line(magics: TorchProfMagics, name: str) -> None:
    flag = name.replace("_", "-")
    assert switched_on(options(magics, f"--{flag}")) == {name}
    setattr(magics, name, True)
    assert switched_on(options(magics, "")) == {name}
    assert switched_on(options(magics, f"--preset quick --no-{flag}")) == set()


@pytest.mark.parametrize("name", COUNTS)
def test_every_count_comes_from_the_line_or_the_configuration(magics: TorchProfMagics, name: str) -> None:
    setattr(magics, name, 4)
    assert getattr(options(magics, "").schedule, name) == 4
    assert getattr(options(magics, f"--{name.replace('_', '-')} 2").schedule, name) == 2


def test_the_bounds_of_a_snapshot_come_from_the_line_or_the_configuration(magics: TorchProfMagics) -> None:
    magics.snapshot_entries = 4
    assert options(magics, "--snapshot").snapshot_entries == 4
    found = options(magics, "--snapshot --snapshot-entries 2 --snapshot-stacks none")
    assert (found.snapshot_entries, found.snapshot_stacks) == (2, "none")


@pytest.mark.parametrize(
    ("preset", "switches"),
    [
        ("quick", set()),
        ("stacks", {"stack"}),
        ("memory", {"shapes", "memory"}),
        ("full", {"shapes", "memory", "stack", "flops"}),
    ],
)
def test_a_preset_is_a_set_of_switches_on_the_line_or_in_the_configuration(
    magics: TorchProfMagics, preset: str, switches: set[str]
) -> None:
    assert switched_on(options(magics, f"--preset {preset}")) == switches
    magics.preset = preset
    assert switched_on(options(magics, "")) == switches


def test_a_flag_wins_over_a_preset_and_a_preset_on_the_line_over_the_configuration(magics: TorchProfMagics) -> None:
    assert switched_on(options(magics, "--preset memory --no-shapes --stack")) == {"memory", "stack"}
    magics.preset, magics.stack = "full", True
    assert switched_on(options(magics, "--preset quick")) == set()
    magics.memory = False
    assert switched_on(options(magics, "")) == {"shapes", "stack", "flops"}


@pytest.mark.parametrize(
    ("line", "switches"),
    [
        ("", {"shapes", "memory", "stack"}),
        ("--preset quick", {"shapes", "memory", "stack"}),
        ("--shapes", {"shapes"}),
        ("--no-stack", {"shapes", "memory"}),
        ("--preset full", {"shapes", "memory", "stack", "flops"}),
        ("--preset full --no-memory", {"shapes", "stack", "flops"}),
        ("--all-threads", {"shapes", "stack", "all_threads"}),
        ("--trace-only", {"shapes", "memory", "trace_only"}),
    ],
)
def test_the_second_pass_records_the_given_switches_or_all_possible_ones(
    magics: TorchProfMagics, line: str, switches: set[str]
) -> None:
    found = options(magics, f"--two-pass {line}")
    assert switched_on(found) == switches
    magics.two_pass = True
    assert options(magics, line) == found
    assert not options(magics, f"--no-two-pass --preset quick {line}").two_pass


def test_configured_switches_count_as_given_in_the_second_pass(magics: TorchProfMagics) -> None:
    magics.stack = False
    assert switched_on(options(magics, "--two-pass")) == {"shapes", "memory"}
    magics.memory = True
    assert switched_on(options(magics, "--two-pass")) == {"memory"}


def test_activities_may_be_written_with_commas_or_spaces(magics: TorchProfMagics) -> None:
    assert options(magics, "--activities CPU,cuda").activities == ("cpu", "cuda")
    assert options(magics, "--activities 'cpu, cuda'").activities == ("cpu", "cuda")
    with pytest.raises(OptionsError, match="cpu is given twice"):
        options(magics, "--activities cpu,cpu")


def test_the_configuration_lists_every_flag_and_is_removed_with_the_extension(magics: TorchProfMagics) -> None:
    shell = magics.shell
    traits = TorchProfMagics.class_own_traits(config=True) | TorchProfMagics.class_traits(config=True)
    assert {*COUNTS, *SWITCHES, "preset", "skip_first_wait", "activities", "step", "display"} <= set(traits)
    load(shell)
    assert sum(isinstance(known, TorchProfMagics) for known in shell.configurables) == 1
    unload(shell)
    assert not any(isinstance(known, TorchProfMagics) for known in shell.configurables)
    assert "torchprof" not in shell.magics_manager.magics["cell"]


def objects_for(name: str) -> tuple[object, object]:
    """Return two values that an option accepts."""
    kinds: dict[str, type] = {
        "experimental_config": _ExperimentalConfig,
        "execution_trace_observer": ExecutionTraceObserver,
    }
    return (kinds[name](), kinds[name]()) if name in kinds else (print, repr)


@pytest.mark.parametrize("name", list(OBJECTS))
def test_functions_and_objects_are_taken_from_a_variable(magics: TorchProfMagics, name: str) -> None:
    value, _ = objects_for(name)
    flag = f"--{name.replace('_', '-')}"
    assert getattr(options(magics, f"{flag} mine", mine=value), OBJECTS[name]) is value
    assert getattr(options(magics, "", mine=value), OBJECTS[name]) is None
    with pytest.raises(OptionsError, match=f"{flag} needs the name of a variable, and 'mine' is not defined"):
        options(magics, f"{flag} mine")


def test_activities_can_be_a_variable_with_torchs_own_objects(magics: TorchProfMagics) -> None:
    found = options(magics, "--activities mine", mine=[ProfilerActivity.CPU, {ProfilerActivity.CUDA: ["GPU_MEMCPY"]}])
    assert found.activities == ("cpu", "cuda")
    assert found.activity_types == {"cuda": ("GPU_MEMCPY",)}
    assert options(magics, "--activities cpu", cpu="not this").activities == ("cpu",)
    with pytest.raises(OptionsError, match="--activities: unknown mine"):
        options(magics, "--activities mine")


@pytest.mark.parametrize("name", list(OBJECTS))
def test_a_variable_can_be_a_default(magics: TorchProfMagics, name: str) -> None:
    usual, given = objects_for(name)
    magics.shell.run_cell(f"%config TorchProfMagics.{name} = 'usual'")
    found = options(magics, "", usual=usual)
    assert getattr(found, OBJECTS[name]) is usual
    found = options(magics, f"--{name.replace('_', '-')} mine", usual=usual, mine=given)
    assert getattr(found, OBJECTS[name]) is given


def test_schedule_flags_on_the_line_win_over_every_configured_schedule(magics: TorchProfMagics) -> None:
    magics.schedule = "usual"
    assert options(magics, "--active 2").schedule == ScheduleOptions(active=2)
    assert options(magics, "--two-pass").schedule_function is None
    magics.schedule, magics.wait, magics.skip_first_wait = None, 3, True
    assert options(magics, "--schedule mine", mine=print).schedule_function is print
    magics.schedule = "usual"
    with pytest.raises(OptionsError, match="--schedule cannot be combined with --wait"):
        options(magics, "", usual=print)


def test_metadata_on_the_line_adds_to_that_of_the_configuration(magics: TorchProfMagics) -> None:
    magics.metadata = {"run": 1, "who": "me"}
    assert dict(options(magics, "").metadata) == {"run": "1", "who": '"me"'}
    assert dict(options(magics, "--metadata run=2").metadata) == {"run": "2", "who": '"me"'}


def test_activities_and_the_post_processing_timeout_can_be_defaults(magics: TorchProfMagics) -> None:
    magics.activities, magics.post_processing_timeout_s = "mine", 2
    found = options(magics, "", mine=[ProfilerActivity.CPU])
    assert (found.activities, found.post_processing_timeout_s) == (("cpu",), 2.0)


def test_every_flag_but_those_of_one_run_has_a_default(magics: TorchProfMagics) -> None:
    flags = {action.dest for action in magics.torchprof.parser._actions if action.option_strings}
    assert flags - {"help"} == set(OPTIONS)
    traits = FlagDefaults.class_traits(config=True)
    assert set(traits) == {option.flag for name, option in OPTIONS.items() if name not in OF_ONE_RUN}
    by_flag = {option.flag: option for option in OPTIONS.values()}
    assert {name: trait.help for name, trait in traits.items()} == {name: by_flag[name].help for name in traits}


@pytest.mark.parametrize("flag", ["trace-dir", "filename", "run-name", "remote", "execution-trace", "snapshot"])
def test_a_path_can_contain_a_variable(magics: TorchProfMagics, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.setenv("AT_HOME", "/home")
    monkeypatch.setenv("mine", "not this")

    def place(text: str) -> object:
        args = parse_argstring(TorchProfMagics.torchprof, f"--trace-dir d --{flag} {text}")
        return values_of(args, magics, {"mine": Path("/data"), "n": 3})[flag.replace("-", "_")]

    assert place("$mine/$n-{cycle}") == "/data/3-{cycle}"
    assert place("${mine}s") == "/datas"
    assert place("$AT_HOME/a") == "/home/a"
    assert place("$$n") == "$n"
    with pytest.raises(OptionsError, match=f"--{flag}: variable 'other' is not defined"):
        place("$other")
    with pytest.raises(OptionsError, match=re.escape("write $$ for a dollar sign")):
        place("a$")


def test_a_schedule_function_and_schedule_flags_cannot_be_combined(magics: TorchProfMagics) -> None:
    assert options(magics, "--schedule mine", mine=print).is_adaptive is False
    with pytest.raises(OptionsError, match="--schedule cannot be combined with --wait"):
        options(magics, "--schedule mine --active 2", mine=print)


def test_a_schedule_function_and_two_passes_cannot_be_combined(magics: TorchProfMagics) -> None:
    with pytest.raises(OptionsError, match="--two-pass and --schedule cannot be combined"):
        options(magics, "--schedule mine --two-pass", mine=print)


def test_the_post_processing_timeout_is_a_number_of_seconds(magics: TorchProfMagics) -> None:
    assert options(magics, "--post-processing-timeout-s 1.5").post_processing_timeout_s == 1.5
    with pytest.raises(OptionsError, match="above 0"):
        options(magics, "--post-processing-timeout-s 0")


def test_a_snapshot_goes_next_to_the_traces_or_into_the_named_file(magics: TorchProfMagics) -> None:
    assert options(magics, "").snapshot is False
    assert options(magics, "--snapshot").snapshot is True
    assert options(magics, "--snapshot --memory").snapshot is True
    assert options(magics, "--snapshot 'my file.pickle' --memory").snapshot == "my file.pickle"
    assert options(magics, "--snapshot=a.pickle").snapshot == "a.pickle"


def test_a_budget_of_memory_and_time_comes_from_the_line_or_the_configuration(
    magics: TorchProfMagics,
) -> None:
    def budget(line: str) -> tuple[int | None, float | None]:
        found = options(magics, line)
        return found.budget_bytes, found.budget_s

    assert budget("") == (None, None)
    assert budget("--budget 2GB,5min") == (2_000_000_000, 300)
    assert budget("--budget '30 s'") == (None, 30)
    magics.budget = "1.5h"
    assert budget("") == (None, 5400)
    assert budget("--budget 1MB") == (1_000_000, None)
    with pytest.raises(OptionsError, match=r"2GB,5min \(got '5 days'\)"):
        budget("--budget '5 days'")


def test_the_limit_of_files_is_apart_from_that_of_memory(magics: TorchProfMagics) -> None:
    found = options(magics, "--budget 2GB --budget-files 10GB")
    assert (found.budget_bytes, found.budget_file_bytes) == (2_000_000_000, 10_000_000_000)
    assert options(magics, "--budget 2GB").budget_file_bytes is None
    with pytest.raises(OptionsError, match=r"--budget-files takes a size such as 10GB \(got '5min'\)"):
        options(magics, "--budget-files 5min")


@pytest.mark.parametrize("value", [True, "a.pickle"])
def test_the_line_can_turn_off_a_configured_snapshot(magics: TorchProfMagics, value: bool | str) -> None:
    magics.snapshot = value
    assert options(magics, "").snapshot == value
    assert options(magics, "--no-snapshot").snapshot is False
    assert options(magics, "--snapshot b.pickle").snapshot == "b.pickle"
