"""``tp.profile`` is a ``torch.profiler.profile``: programs written for torch's run with ours in its place."""

from __future__ import annotations

import gc
import json
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from amount import examples
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerAction, ProfilerActivity, record_function, schedule, tensorboard_trace_handler
from torch.profiler import profile as torchs
from versions import needs

import torchprof_magic as tp
from torchprof_magic.capture import live_profile
from torchprof_magic.capture.torch_api import compat

CPU = [ProfilerActivity.CPU]
# Before it had acc_events, torch kept the events of all cycles; ours keeps those of the last one.
keeps_one_cycle = needs("acc_events")


def train_step() -> None:
    """Multiply and add, so that a step has two ops of its own."""
    with record_function("training"):
        torch.mm(torch.ones(8, 8), torch.ones(8, 8)).add_(1)


def counts(averages: Any) -> dict[str, int]:
    """Return how often each op was called."""
    return {average.key: average.count for average in averages}


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


def without_a_schedule(kind: Callable[..., Any], _folder: Path) -> object:
    """Return all that a program without a schedule can see, also of memory that is freed outside of ops."""
    seen: list[object] = []

    def look(p: Any) -> None:
        seen.append((p.record_steps, p.step_num, p.current_action))

    p = kind(activities=CPU, profile_memory=True, record_shapes=True, on_trace_ready=look)
    look(p)
    with p:
        kept = [torch.ones(100), torch.ones(1000)]
        look(p)
        del kept[0]
        train_step()
        kept.clear()
    look(p)
    rows = [(row.key, row.count, row.cpu_memory_usage, row.self_cpu_memory_usage) for row in p.key_averages()]
    table = p.key_averages().table(sort_by="count", row_limit=-1)
    tops = p.key_averages().table(sort_by="count", row_limit=-1, top_level_events_only=True)
    return (
        seen,
        rows,
        [line.split()[:1] for line in table.splitlines()],
        [line.split()[:1] for line in tops.splitlines()],
    )


def steps_without_a_schedule(kind: Callable[..., Any], _folder: Path) -> object:
    seen: list[int] = []
    with kind(activities=CPU, on_trace_ready=lambda p: seen.append(p.step_num)) as p:
        for _ in range(3):
            train_step()
            seen.append(p.step_num)
            p.step()
    return seen, p.step_num, p.current_action, p.record_steps, counts(p.key_averages())


def the_share_of_each_op(kind: Callable[..., Any], _folder: Path) -> object:
    """Return whether the percentages of a table add up to the whole, in ops that are not in one another."""
    with kind(activities=CPU) as p:
        for _ in range(20):
            torch.ones(64, 64).neg()
    rows = [line.split() for line in p.key_averages().table(sort_by="self_cpu_time_total").splitlines()]
    shares = [float(row[1].rstrip("%")) for row in rows if len(row) > 4 and row[1].endswith("%")]
    return len(shares), abs(sum(shares) - 100) < 0.1


def used_again(kind: Callable[..., Any], folder: Path) -> object:
    seen: list[dict[str, int]] = []
    p = kind(activities=CPU, on_trace_ready=lambda p: seen.append(counts(p.key_averages())))
    p.start()
    torch.ones(3)
    p.stop()
    for op in (torch.zeros, torch.rand):
        with p:
            op(3)
    p.export_chrome_trace(str(folder / "last.json"))
    events = json.loads((folder / "last.json").read_bytes())["traceEvents"]
    return seen, counts(p.key_averages()), [e["name"] for e in events if e.get("cat") == "cpu_op"]


def an_endless_schedule(kind: Callable[..., Any], folder: Path) -> object:
    """Return what the handler gets, of which the last cycle has only just begun, and what can be read after that."""
    seen: list[object] = []

    def handler(p: Any) -> None:
        p.export_chrome_trace(str(folder / f"{len(seen)}.json"))
        events = json.loads((folder / f"{len(seen)}.json").read_bytes())["traceEvents"]
        seen.append((p.step_num, p.current_action, [e["name"] for e in events if e.get("cat") == "cpu_op"]))

    with kind(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=handler) as p:
        for _ in range(3):
            train_step()
            p.step()
    return seen, len(list(folder.iterdir())), [key for key in counts(p.key_averages()) if key.startswith("aten")]


def configured_as_torch_does(kind: Callable[..., Any], _folder: Path) -> object:
    """Return the warnings of what torch leaves out, and whether it recorded the rest."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = _ExperimentalConfig(trace_only=True)
        p = kind(activities=CPU, with_stack=True, experimental_config=config)
    with p:
        train_step()
    texts = [(str(each.message), each.category) for each in caught if "trace_only" in str(each.message)]
    return texts, config.trace_only, p.experimental_config.trace_only, "aten::mm" in {e.name for e in p.events()}


PROGRAMS = (
    without_a_schedule,
    steps_without_a_schedule,
    the_share_of_each_op,
    pytest.param(used_again, marks=keeps_one_cycle),
    pytest.param(an_endless_schedule, marks=keeps_one_cycle),
    pytest.param(configured_as_torch_does, marks=needs("trace_only")),
    a_table_of_ops,
    memory_of_ops,
    a_trace_file,
    stacks,
    pytest.param(a_long_job, marks=keeps_one_cycle),
    a_board_without_a_block,
    pytest.param(a_part_left_out, marks=needs("toggle_collection_dynamic")),
    added_metadata,
    pytest.param(trace_ids, marks=needs("custom_trace_id_callback")),
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


@keeps_one_cycle
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
        found.append(cycles)
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
            with pytest.raises(AssertionError):  # with a text in newer versions
                read()


def test_metadata_that_is_no_json_is_refused() -> None:
    p = tp.profile()
    with pytest.raises(tp.OptionsError, match="the metadata of 'a' must be JSON"):
        p.add_metadata_json("a", "{")
    with pytest.raises(tp.OptionsError, match="a key that torch writes itself"):
        p.add_metadata("traceEvents", "b")


def test_torchs_answers_are_there_at_any_size(tmp_path: Path) -> None:
    x, calls = torch.ones(1), examples(100_000)
    with tp.profile(activities=CPU) as p:
        for _ in range(calls):
            torch.neg(x)
    assert counts(p.key_averages())["aten::neg"] == len(p.events()) == calls
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").stat().st_size > 200 * calls


def test_the_events_of_a_cycle_are_released_if_its_trace_needs_their_memory_and_the_file_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handed: list[weakref.ref[Any]] = []
    with monkeypatch.context() as patch:
        patch.setattr(live_profile, "lack_for_reading", lambda _bytes: "too little")
        with tp.profile(activities="cpu", on_trace_ready=lambda p: handed.append(weakref.ref(p))) as p:
            train_step()
    gc.collect()
    assert handed[0]() is None
    with pytest.raises(tp.CaptureError, match="were released"):
        p.key_averages()
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "aten::mm" in (tmp_path / "trace.json").read_text()
    assert p.report.ops.height
    with p:
        train_step()
    assert "aten::mm" in counts(p.key_averages())


def test_a_profile_that_is_gone_takes_torchs_events_with_it_at_once() -> None:
    handed: list[weakref.ref[Any]] = []
    gc.disable()
    try:
        p = tp.profile(activities="cpu", on_trace_ready=lambda p: handed.append(weakref.ref(p.profiler)))
        with p:
            train_step()
        assert handed[0]() is not None
        with p:  # the events of one use are not kept beside those of the next
            pass
        assert handed[0]() is None
        assert handed[1]() is not None
        del p
        assert handed[1]() is None
    finally:
        gc.enable()


def test_a_profile_that_is_recording_cannot_be_started_and_the_next_use_begins_anew() -> None:
    p = tp.profile(activities="cpu", wait=0, warmup=0, active=1, repeat=1)
    with p:
        with pytest.raises(tp.CaptureError, match="already recording"):
            p.start()
        train_step()
        p.step()
    first = p.report
    with p:
        assert p.step_num == 0
        train_step()
        p.step()
    assert p.report is not first
    assert [report.steps["number"].to_list() for report in (first, p.report)] == [[0], [0]]


def test_the_decorator_works_without_parentheses() -> None:
    @tp.profile
    def double(x: torch.Tensor) -> torch.Tensor:
        """Double."""
        return x * 2

    assert double(torch.ones(2)).tolist() == [2, 2]
    assert (double.__name__, double.__doc__) == ("double", "Double.")
    assert "aten::mul" in tp.last.ops["name"].to_list()
    with pytest.raises(TypeError, match=r"write @profile\(\.\.\.\)"):
        tp.profile(double, record_shapes=True)
    with pytest.raises(TypeError, match="keyword arguments only"):
        tp.profile(CPU)


@pytest.mark.skipif("cuda" in compat.available_activities(), reason="this machine can record CUDA")
def test_an_activity_that_this_machine_lacks_is_left_out_with_torchs_warning() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling") as caught:
        p = tp.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    assert [warning.filename for warning in caught] == [__file__]
    with p:
        train_step()
    assert p.report.problems == []
    assert "aten::mm" in counts(p.key_averages())


def frames_of(path: Path) -> list[str]:
    return [re.sub("0x[0-9a-f]+", "", line.rsplit(" ", 1)[0]) for line in path.read_text().splitlines()]


def test_stacks_have_the_frames_of_the_program_and_none_of_ours(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    stacks: dict[str, set[str]] = {}
    for name, kind in (("theirs", torchs), ("ours", tp.profile)):
        config = _ExperimentalConfig(verbose=True)
        # With hooks for modules, which are ours, torch calls a module by another way.
        how = {"with_stack": True, "with_modules": False, "experimental_config": config, "schedule": plan}
        with kind(activities=CPU, **how) as p:
            for _ in range(3):
                model(torch.ones(2048, 4)).sum().backward()
                p.step()
        p.export_stacks(str(tmp_path / name), "self_cpu_time_total")
        # torch leaves out what takes less than a microsecond, as some frames of Python do now and then.
        calls = [line for line in frames_of(tmp_path / name) if line.rpartition(";")[2].startswith("<built-in_method")]
        stacks[name] = {line for line in calls if "_relu_of_" in line or "_sum_of_" in line}
    assert stacks["ours"] == stacks["theirs"]
    assert len(stacks["ours"]) == 2
    assert [line for line in frames_of(tmp_path / "ours") if "torchprof" in line] == []
    names = {event.name for event in p.events()}
    assert [name for name in names if "torchprof" in name] == []


def test_a_decorated_function_and_an_iterator_keep_their_frames_and_lose_ours(tmp_path: Path) -> None:
    def items() -> Iterator[torch.Tensor]:
        for _ in range(5):
            yield torch.rand(3)

    p = tp.profile(activities=CPU, with_stack=True, experimental_config=_ExperimentalConfig(verbose=True))

    @p
    def decorated() -> None:
        torch.ones(3).tan()

    decorated()
    p.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert any("decorated" in line for line in frames_of(tmp_path / "stacks"))
    assert not any("torchprof" in line for line in frames_of(tmp_path / "stacks"))
    with p:
        for item in p.steps(items()):
            item.tan()
    p.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert any("items" in line for line in frames_of(tmp_path / "stacks"))
    assert not any("torchprof" in line for line in frames_of(tmp_path / "stacks"))


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
