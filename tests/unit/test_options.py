from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.options import (
    AUTO,
    PRESET_COSTS_US,
    PRESETS,
    KeepOptions,
    ProfileOptions,
    ScheduleOptions,
    activities_of,
    budget_of,
    bytes_of,
    file_bytes_of,
    metadata_of,
    preset_switches,
    profile_options,
    resolved,
)


@pytest.mark.parametrize(
    ("name", "value"), [("wait", -1), ("warmup", -1), ("active", 0), ("repeat", -1), ("skip_first", -2)]
)
def test_a_schedule_value_out_of_range_is_refused_with_its_flag(name: str, value: int) -> None:
    with pytest.raises(OptionsError, match=f"--{name.replace('_', '-')} must be at least"):
        ScheduleOptions(**{name: value})


@pytest.mark.parametrize("value", [1.5, "2", [1], True])
def test_a_schedule_value_that_is_not_a_whole_number_is_refused(value: object) -> None:
    with pytest.raises(OptionsError, match="--active must be a whole number"):
        ScheduleOptions(active=value)  # type: ignore[arg-type]


def test_a_schedule_is_adaptive_only_without_schedule_options() -> None:
    assert ScheduleOptions().is_adaptive
    assert not ScheduleOptions(active=3).is_adaptive
    assert not ScheduleOptions(wait=0).is_adaptive
    assert not ScheduleOptions(skip_first_wait=True).is_adaptive


def test_an_unknown_activity_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionsError, match="unknown gpu; choose from cpu, cuda"):
        ProfileOptions(activities=("gpu",))


def test_activities_are_names_or_torch_objects_with_or_without_record_types() -> None:
    assert activities_of("CPU") == (("cpu",), {})
    assert activities_of(["cpu", ProfilerActivity.CUDA]) == (("cpu", "cuda"), {})
    assert activities_of({ProfilerActivity.CUDA: "GPU_MEMCPY"}) == (("cuda",), {"cuda": ("GPU_MEMCPY",)})
    assert activities_of(ProfilerActivity.CPU) == (("cpu",), {})
    assert activities_of(()) == ((), {})
    assert activities_of([{ProfilerActivity.CUDA: ["GPU_MEMCPY"]}, "cpu"]) == (
        ("cuda", "cpu"),
        {"cuda": ("GPU_MEMCPY",)},
    )


def test_an_activity_may_be_configured_as_by_torch_and_none_limits_nothing() -> None:
    config = SimpleNamespace(activity_types=None, profiler_configs=[])  # as torch's ProfilerActivityConfig
    assert activities_of([ProfilerActivity.CPU, {ProfilerActivity.CUDA: config}]) == (("cpu", "cuda"), {"cuda": config})
    assert activities_of({ProfilerActivity.CUDA: None}) == (("cuda",), {})
    assert activities_of([{"cpu": []}]) == (("cpu",), {"cpu": ()})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["cpu", "CPU"], "cpu is given twice"),
        ([5], "5 is not an activity"),
        (5, "5 is not an activity"),
        (None, "None is not an activity"),
        ([{5: []}], "5 is not an activity"),
        ([{"cpu": 5}], "record types must be strings"),
    ],
)
def test_a_value_that_is_not_an_activity_is_refused(values: object, says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        activities_of(values)


@pytest.mark.parametrize(
    ("given", "watches"),
    [
        ({}, None),
        ({"record_shapes": True}, None),
        ({"with_modules": True}, True),
        ({"with_modules": False}, False),
        ({"with_modules": False, "with_stack": True}, False),
    ],
)
def test_two_passes_time_modules_as_one_pass_does(given: dict[str, bool], watches: bool | None) -> None:
    one, two = (profile_options(resolved({**given, "two_pass": is_two})) for is_two in (False, True))
    assert one.watch_modules is two.watch_modules is watches


def test_the_first_of_two_passes_omits_the_details() -> None:
    options = ProfileOptions(
        two_pass=True, record_shapes=True, with_stack=True, sync_events=True, execution_trace="graph.json"
    )
    times, details = options.passes
    assert (times.record_shapes, times.with_stack, times.execution_trace) == (False, False, "")
    assert (details.record_shapes, details.with_stack, details.execution_trace) == (True, True, "graph.json")
    assert (details.profile_memory, times.sync_events, details.sync_events) == (False, True, True)
    assert (options.cycles, times.cycles) == (2, 1)
    assert ProfileOptions(record_shapes=True).passes == (ProfileOptions(record_shapes=True),)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"two_pass": True}, "--two-pass has no details to record: add --shapes, --memory or --stack"),
        (
            {"two_pass": True, "record_shapes": True, "schedule": ScheduleOptions(repeat=0)},
            "--repeat 0 and --two-pass cannot be combined",
        ),
        ({"all_threads": True, "profile_memory": True}, "Add --no-memory, and record memory in a separate run"),
        ({"trace_only": True, "with_stack": True}, "--trace-only and --stack cannot be combined"),
        (
            {"all_threads": True, "experimental_config": _ExperimentalConfig()},
            "set profile_all_threads in experimental_config",
        ),
        ({"post_processing_timeout_s": True}, "must be a number of seconds above 0"),
        ({"on_trace_ready": 5}, "on_trace_ready must be a function"),
        ({"custom_trace_id_callback": "x"}, "custom_trace_id_callback must be a function"),
        ({"experimental_config": 5}, "must be a torch _ExperimentalConfig object"),
        ({"post_processing_timeout_s": 0}, "must be a number of seconds above 0"),
        ({"budget_s": 0}, "budget_s must be a number of seconds above 0"),
        ({"budget_s": "30s"}, "budget_s must be a number of seconds above 0"),
        ({"post_processing_timeout_s": "5"}, "must be a number of seconds above 0"),
        ({"post_processing_timeout_s": float("nan")}, "must be a number of seconds above 0"),
    ],
)
def test_options_that_cannot_be_combined_are_refused_with_what_to_do(options: dict[str, object], says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        ProfileOptions(**options)  # type: ignore[arg-type]


def test_every_preset_has_a_cost() -> None:
    assert PRESET_COSTS_US.keys() == PRESETS.keys() - {AUTO}
    assert list(PRESET_COSTS_US.values()) == sorted(PRESET_COSTS_US.values())


def test_every_preset_is_a_valid_set_of_options() -> None:
    for name in PRESETS:
        ProfileOptions(**preset_switches(name))
    with pytest.raises(OptionsError, match="unknown 'pie'; choose from auto, quick, stacks, memory, full"):
        preset_switches("pie")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("2GB", 2_000_000_000),
        ("1.5 mb", 1_500_000),
        ("7k", 7_000),
        ("2GiB", 2_147_483_648),
        ("1.5 kib", 1_536),
        ("12", 12),
        (12, 12),
        ("", None),
        (None, None),
    ],
)
def test_a_budget_is_a_size_in_decimal_units(size: str | int | None, expected: int | None) -> None:
    assert bytes_of(size) == expected


@pytest.mark.parametrize("size", ["much", "-1GB", "0", 0, "1e9", "2 G B", "٣GB"])
def test_an_invalid_size_is_refused(size: str | int) -> None:
    with pytest.raises(OptionsError, match="--budget takes a size such as 2GB"):
        bytes_of(size)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("", (None, None)),
        (None, (None, None)),
        ("2GB", (2_000_000_000, None)),
        (12, (12, None)),
        ("30s", (None, 30)),
        ("1.5 min", (None, 90)),
        (" 0.5h ", (None, 1800)),
        ("2GB,5min", (2_000_000_000, 300)),
        ("10 s , 7 kB", (7000, 10)),
        ("5m", (5_000_000, None)),
    ],
)
def test_a_budget_is_a_size_or_a_time_or_both(
    budget: str | int | None, expected: tuple[int | None, float | None]
) -> None:
    assert budget_of(budget) == expected


@pytest.mark.parametrize(
    "budget",
    [
        "0s", "0.0 min", "-5s", "30ms", "5 minutes", "1d", "30S", "s", "1e3s", "٣s", "9" * 400 + "h", "9" * 400,
        "2GB,", ",30s", ",", "2GB;30s", "2GB 30s", "2GB,0s", "0,30s", "2GB,soon", True, 0, -1, 2e9, 30.0,
        ["2GB"], b"2GB",
    ],
)  # fmt: skip
def test_a_budget_that_is_neither_is_refused_with_an_example(budget: Any) -> None:
    with pytest.raises(OptionsError, match="takes a size such as 2GB, a time such as 30s, 5min or 1h, or both"):
        budget_of(budget)


@pytest.mark.parametrize("budget", ["2GB,3GB", "30s,5min", "2GB,30s,1", "30s,2GB,30s"])
def test_a_budget_has_at_most_one_size_and_one_time(budget: str) -> None:
    with pytest.raises(OptionsError, match=r"one size and one time, such as 2GB,5min \(got '"):
        budget_of(budget)


@pytest.mark.parametrize("size", ["5min", "2GB,5min", "much", "0", True, 2e9, b"2GB"])
def test_a_limit_of_files_that_is_no_size_is_refused_with_an_example(size: Any) -> None:
    with pytest.raises(OptionsError, match="--budget-files takes a size such as 10GB"):
        file_bytes_of(size)


def test_a_limit_of_files_is_a_size_and_may_be_missing() -> None:
    assert [file_bytes_of(size) for size in ("10GB", 12, "", None)] == [10_000_000_000, 12, None, None]


def test_metadata_becomes_json_without_unnecessary_backslashes() -> None:
    assert metadata_of({"a b": 'x"é', "n": [1, None]}) == (("a b", '"x\\"é"'), ("n", "[1, null]"))


@pytest.mark.parametrize("key", ["", 'a"b', "a\\b", "a\nb", "é", 5])
def test_a_key_that_would_break_the_trace_is_refused(key: str) -> None:
    with pytest.raises(OptionsError, match="is not a valid key"):
        metadata_of({key: 1})


@pytest.mark.parametrize("key", ["traceEvents", "distributedInfo", "with_stack"])
def test_a_key_that_torch_writes_itself_is_refused(key: str) -> None:
    with pytest.raises(OptionsError, match="a key that torch writes itself"):
        metadata_of({key: 1})


@pytest.mark.parametrize("values", [[1], "abc", 5])
def test_metadata_is_a_dict(values: object) -> None:
    with pytest.raises(OptionsError, match="metadata must be a dict"):
        metadata_of(values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trace_dir": 5}, "--trace-dir must be a string"),
        ({"trace_dir": "a", "filename": 5}, "--filename must be a string"),
        ({"trace_dir": "a", "keep_last": 1.5}, "--keep-last must be a whole number"),
        ({"trace_dir": "a", "keep_last": "x"}, "--keep-last must be a whole number"),
        ({"trace_dir": "a", "keep_last": -2}, "--keep-last must be at least -1"),
        ({"trace_dir": "a", "keep_last": 0}, "--keep-last 0 deletes each trace when it is uploaded: add --remote"),
        ({"trace_dir": "a", "step_samples": 0}, "--step-samples must be at least 1"),
        ({"trace_dir": "a", "worker_name": "w"}, "add --tensorboard"),
    ],
)
def test_options_of_kept_traces_have_their_types(options: dict[str, object], says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        KeepOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, "half \ud800"])
def test_metadata_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(OptionsError, match="the value of 'a' cannot be written as JSON"):
        metadata_of({"a": value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"snapshot": True, "snapshot_entries": 0}, "--snapshot-entries must be at least 1"),
        ({"snapshot": True, "snapshot_entries": 1.5}, "--snapshot-entries must be a whole number"),
        ({"snapshot": True, "snapshot_stacks": "c"}, "--snapshot-stacks: unknown 'c'; choose from python, all, none"),
        ({"snapshot_stacks": "all"}, "--snapshot-entries and --snapshot-stacks need --snapshot"),
        ({"snapshot_entries": 5}, "--snapshot-entries and --snapshot-stacks need --snapshot"),
    ],
)
def test_bounds_of_a_snapshot_are_checked_and_need_one(options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        profile_options(resolved(options))


@pytest.mark.parametrize(("calls", "says"), [(0, "at least 1"), (1.5, "a whole number"), ("many", "a whole number")])
def test_the_limit_of_python_calls_is_a_count(calls: object, says: str) -> None:
    with pytest.raises(OptionsError, match=f"--budget-calls must be {says}"):
        profile_options(resolved({"budget_calls": calls}))
    assert profile_options(resolved({"budget_calls": 7})).budget_calls == 7
    assert profile_options(resolved({})).budget_calls == 300_000


def test_configured_bounds_of_a_snapshot_wait_for_one() -> None:
    usual = {"snapshot_entries": 5, "snapshot_stacks": "all"}
    assert profile_options(resolved({}, usual)).snapshot_entries == 100_000
    wanted = profile_options(resolved({"snapshot": True}, usual))
    assert (wanted.snapshot_entries, wanted.snapshot_stacks) == (5, "all")
