"""``tp.profile`` is a ``torch.profiler.profile``: programs written for torch's run with ours in its place."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerAction, ProfilerActivity, record_function, schedule, tensorboard_trace_handler
from torch.profiler import profile as torchs

import torchprof_magic as tp
from torchprof_magic.capture import live_profile

CPU = [ProfilerActivity.CPU]


def train_step() -> None:
    """Multiply and add, so that a step has two ops of its own."""
    with record_function("training"):
        torch.mm(torch.ones(8, 8), torch.ones(8, 8)).add_(1)


def counts(averages: Any) -> dict[str, int]:
    """Return how often each op was called; only ours marks a step without a schedule."""
    return {average.key: average.count for average in averages if not average.key.startswith("ProfilerStep")}


def a_table_of_ops(kind: Callable[..., Any], _folder: Path) -> object:
    with kind(activities=CPU, record_shapes=True) as prof, record_function("model_inference"):
        train_step()
    table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=10)
    by_shape = prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total", row_limit=-1)
    return counts(prof.key_averages()), "model_inference" in table, "[[8, 8], [8, 8]]" in by_shape


def memory_of_ops(kind: Callable[..., Any], _folder: Path) -> object:
    with kind(activities=CPU, profile_memory=True, record_shapes=True) as prof:
        train_step()
    by_name = {average.key: average.self_cpu_memory_usage for average in prof.key_averages()}
    return by_name["aten::mm"], "Self CPU Mem" in prof.key_averages().table(sort_by="self_cpu_memory_usage")


def a_trace_file(kind: Callable[..., Any], folder: Path) -> object:
    with kind(activities=CPU) as prof:
        train_step()
    prof.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_bytes())["traceEvents"]
    return sorted(event["name"] for event in events if event.get("cat") == "cpu_op")


def stacks(kind: Callable[..., Any], folder: Path) -> object:
    with kind(activities=CPU, with_stack=True) as prof:
        train_step()
    prof.export_stacks(str(folder / "stacks.txt"), "self_cpu_time_total")
    prof.key_averages(group_by_stack_n=5).table(sort_by="self_cpu_time_total", row_limit=2)
    return (folder / "stacks.txt").exists()


def a_long_job(kind: Callable[..., Any], folder: Path) -> object:
    seen: list[object] = []

    def trace_handler(p: Any) -> None:
        p.export_chrome_trace(str(folder / f"trace_{p.step_num}.json"))
        seen.append((isinstance(p, torchs), p.step_num, p.current_action, counts(p.key_averages())))

    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    with kind(activities=CPU, schedule=plan, on_trace_ready=trace_handler) as p:
        for _ in range(10):
            train_step()
            seen.append((p.step_num, p.current_action))
            p.step()
    return seen, p.step_num, p.current_action, sorted(path.name for path in folder.iterdir())


def a_board_without_a_block(kind: Callable[..., Any], folder: Path) -> object:
    prof = kind(
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(folder), worker_name="w"),
        record_shapes=True,
    )
    prof.start()
    for step in range(8):
        prof.step()
        if step >= 1 + 1 + 3:
            break
        train_step()
    prof.stop()
    (path,) = folder.iterdir()
    events = json.loads(path.read_bytes())["traceEvents"]
    return sorted(event["name"] for event in events if str(event["name"]).startswith("ProfilerStep"))


def a_part_left_out(kind: Callable[..., Any], _folder: Path) -> object:
    with kind(activities=CPU) as p:
        torch.ones(2)
        p.toggle_collection_dynamic(enable=False, activities=CPU)
        torch.zeros(2)
        p.toggle_collection_dynamic(enable=True, activities=CPU)
        torch.full((2,), 3)
    names = counts(p.key_averages())
    return [name in names for name in ("aten::ones", "aten::zeros", "aten::full")]


def added_metadata(kind: Callable[..., Any], folder: Path) -> object:
    p = kind(activities=CPU)
    p.preset_metadata_json("preset", "[1, 2]")
    with p:
        train_step()
        p.add_metadata("text", "a b")
        p.add_metadata_json("json", '{"a": 1}')
    p.export_chrome_trace(str(folder / "trace.json"))
    trace = json.loads((folder / "trace.json").read_bytes())
    return trace["preset"], trace["text"], trace["json"]


def trace_ids(kind: Callable[..., Any], _folder: Path) -> object:
    ids: list[str] = []
    plan = schedule(wait=1, warmup=1, active=1, repeat=2)
    p = kind(activities=CPU, schedule=plan, on_trace_ready=lambda p: ids.append(p.get_trace_id()))
    before = p.get_trace_id()
    p.set_custom_trace_id_callback(lambda: "first")
    with p:
        for step in range(7):
            train_step()
            if step == 2:
                p.set_custom_trace_id_callback(lambda: "second")
            p.step()
    return before, ids, p.get_trace_id()


PROGRAMS = (
    a_table_of_ops,
    memory_of_ops,
    a_trace_file,
    stacks,
    a_long_job,
    a_board_without_a_block,
    a_part_left_out,
    added_metadata,
    trace_ids,
)


@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # torch says that it keeps only the last cycle
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_for_torch_gives_the_same_with_ours(program: Callable[..., object], tmp_path: Path) -> None:
    answers = []
    for kind in (torchs, tp.profile):
        folder = tmp_path / kind.__module__
        folder.mkdir()
        answers.append(program(kind, folder))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "given", [{"active": 1}, {"active": 2, "skip_first": 1}, {"active": 1, "repeat": 1}, {"active": 2, "wait": 2}]
)
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # torch says that it keeps only the last cycle
def test_the_cycles_of_schedule_arguments_are_those_of_torchs_schedule(given: dict[str, int]) -> None:
    found: list[list[set[str]]] = []
    for kind, more in ((torchs, {"schedule": schedule(**{"wait": 0, "warmup": 1, **given})}), (tp.profile, given)):
        cycles: list[set[str]] = []

        def note(p: Any, cycles: list[set[str]] = cycles) -> None:
            cycles.append({event.name for event in p.events() if event.name.startswith("step ")})

        with kind(activities=CPU, on_trace_ready=note, **more) as p:
            for step in range(8):
                with record_function(f"step {step}"):
                    train_step()
                p.step()
        found.append([cycle for cycle in cycles if cycle])  # torch's last one can be a step that has only just begun
    assert found[0] == found[1]


def public(profiler: object) -> set[str]:
    return {name for name in dir(profiler) if not name.startswith("_")}


def test_it_has_every_public_attribute_and_method_of_torchs_before_in_and_after_the_block() -> None:
    wanted = public(torchs())
    torch.autograd.profiler.KinetoStepTracker.erase_step_count("ProfilerStep")
    handed: list[Any] = []
    p = tp.profile(activities="cpu", on_trace_ready=handed.append)
    stages = [(p, wanted - public(p))]
    with p:
        train_step()
        stages.append((p, wanted - public(p)))
    stages += [(p, wanted - public(p)), (handed[0], wanted - public(handed[0]))]
    for profiler, missing in stages:
        assert isinstance(profiler, torchs)
        assert missing == set()
        assert [name for name in wanted if not hasattr(profiler, name)] == []


def test_attributes_are_those_of_the_run() -> None:
    def handler(_p: object) -> None:
        pass

    plan = schedule(wait=1, warmup=1, active=1)
    p = tp.profile(activities="cpu", record_shapes=True, schedule=plan, on_trace_ready=handler)
    assert (p.record_shapes, p.with_stack, p.on_trace_ready, p.schedule) == (True, False, handler, plan)
    assert (p.step_num, p.profiler) == (0, None)
    counted = tp.profile(activities="cpu", wait=0, warmup=1, active=2)
    with counted:
        assert [counted.schedule(step).name for step in range(4)] == ["WARMUP", "RECORD", "RECORD_AND_SAVE", "WARMUP"]
        assert counted.current_action == ProfilerAction.WARMUP
    with pytest.raises(AttributeError, match="_nothing"):
        _ = p._nothing
    with pytest.raises(AttributeError, match="nothing"):
        _ = p.nothing


@pytest.mark.parametrize("kind", [torchs, tp.profile])
def test_nothing_can_be_read_before_a_cycle_is_finished(kind: Callable[..., Any]) -> None:
    with kind(activities=CPU, schedule=schedule(wait=3, warmup=1, active=1)) as p:
        train_step()
        for read in (p.key_averages, p.events):
            with pytest.raises(AssertionError, match="must be initialized"):
                read()


def test_metadata_that_is_no_json_is_refused() -> None:
    p = tp.profile()
    with pytest.raises(tp.OptionsError, match="the metadata of 'a' must be JSON"):
        p.add_metadata_json("a", "{")
    with pytest.raises(tp.OptionsError, match="a key that torch writes itself"):
        p.add_metadata("traceEvents", "b")


def test_the_events_of_a_large_cycle_are_released_and_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_profile, "KEPT_TRACE_BYTES", 100)
    handed: list[weakref.ref[Any]] = []
    with tp.profile(activities="cpu", on_trace_ready=lambda p: handed.append(weakref.ref(p))) as p:
        train_step()
    gc.collect()
    assert handed[0]() is None
    with pytest.raises(tp.CaptureError, match="were released"):
        p.key_averages()
    assert p.report.ops.height


def test_only_the_last_cycle_is_kept_and_goes_with_its_profile() -> None:
    handed: list[weakref.ref[Any]] = []
    p = tp.profile(
        activities="cpu", wait=0, warmup=1, active=1, repeat=2, on_trace_ready=lambda p: handed.append(weakref.ref(p))
    )
    with p:
        for _ in range(4):
            train_step()
            p.step()
    gc.collect()
    assert [cycle() is None for cycle in handed] == [True, False]
    del p
    gc.collect()
    assert [cycle() is None for cycle in handed] == [True, True]


def test_start_trace_and_stop_trace_record_what_is_between_them() -> None:
    p = tp.profile(activities="cpu")
    p.prepare_trace()
    p.start_trace()
    train_step()
    p.stop_trace()
    assert "aten::mm" in p.report.ops["name"].to_list()


def test_a_handler_that_steps_or_stops_the_profiler_it_gets_harms_nothing() -> None:
    def meddle(p: Any) -> None:
        p.step()
        p.stop()
        p.start()

    with tp.profile(activities="cpu", wait=0, warmup=0, active=1, repeat=2, on_trace_ready=meddle) as p:
        for _ in range(2):
            train_step()
            p.step()
    assert p.report.problems == []
    assert p.report.steps["number"].to_list() == [0, 1]
