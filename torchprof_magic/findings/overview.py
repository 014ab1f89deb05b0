"""The headline numbers of a recording."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.budget import PARTS, busiest_device
from torchprof_magic.facts.counted_steps import counted_part, counted_steps, has_counted_steps, with_chosen_steps
from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.device.idle_pieces import CAUSE_TITLES
from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.facts.host.phases import PHASES, with_one_wait
from torchprof_magic.facts.memory.alive import alive_at, is_snapshot
from torchprof_magic.facts.ops.flops import flops_in, flops_of_calls, modelled_ratio
from torchprof_magic.facts.ops.roofline import device_name, known_ratio, peak_of_device
from torchprof_magic.facts.server_steps import are_of_server, server_steps
from torchprof_magic.facts.shared import is_named
from torchprof_magic.facts.source.fused_titles import fused_titles
from torchprof_magic.facts.source.shown_files import call_as_shown, spot_of
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.findings.deciding_time import is_decided_on_device
from torchprof_magic.findings.hottest_rows import short_scope
from torchprof_magic.findings.savings.table import savings_table, title_of
from torchprof_magic.findings.verdict.accounts import Account, Cause, device_account
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.findings.verdict.words import place_of, short_name
from torchprof_magic.findings.watched import watched_run
from torchprof_magic.findings.what_if.ladder import ladder
from torchprof_magic.model.meta import TRACE_ID
from torchprof_magic.model.peaks import CPU
from torchprof_magic.model.rows import are_known
from torchprof_magic.model.shapes import Fact, Facts, Section
from torchprof_magic.model.trace import DEVICE_CATEGORIES, Trace
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio
from torchprof_magic.tables.budget import TITLES as BUDGET_TITLES
from torchprof_magic.tables.budget import budget_table
from torchprof_magic.tables.devices import devices_table
from torchprof_magic.tables.execution_trace import graph_tensors_table, has_graph
from torchprof_magic.tables.memory.in_use import memory_series
from torchprof_magic.tables.memory.starting_level import own_note, starting_note
from torchprof_magic.tables.ops.kernels import kernels_table
from torchprof_magic.tables.ops.op_groups import is_mostly_in_no_op, is_scope
from torchprof_magic.tables.ops.op_table import NO_OP, ops_table
from torchprof_magic.tables.ops.rates import has_roof, has_work
from torchprof_magic.tables.ops.roofline import roof_titles
from torchprof_magic.tables.process_groups import ranks_text
from torchprof_magic.tables.serving import serving_kinds_table
from torchprof_magic.tables.snapshot.frames import held_by_line
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.source.modules import modules_table
from torchprof_magic.tables.steps import counted_rows, phases_in, steps_table
from torchprof_magic.tables.waiting.idle import idle_table
from torchprof_magic.tables.waiting.loaders import loaders_table
from torchprof_magic.tables.waiting.waits import HOST_RULES, waits_table

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Unit

DEVICE_WAITS = "Why the device waits"
LADDER = "What would limit next"
TOP_WAITS = 5
TOP_ROWS = 6
# From this share of the busy time on it is told that ops have more time on the device.
_SEEN_SHARE = 0.01
# Causes of idle time that are of many ops and calls.
_SPREAD = ("op dispatch", "python", "queued")
MAX_GROUPS = 20  # process groups that are listed


class _Shown(NamedTuple):
    """The part of the time that is shown, the number of steps that its times are divided by, and what they stand for.

    It is that of the steps that count, unless a range was chosen.
    """

    part: TimeRange
    steps: int
    each: str
    is_range: bool


def _shown(trace: Trace, part: TimeRange) -> _Shown:
    if part != WHOLE:
        return _Shown(part, 1, "in this range", is_range=True)
    return _Shown(counted_part(trace), counted_steps(trace).steps, _each(trace), is_range=False)


def overview_facts(trace: Trace, part: TimeRange = WHOLE) -> Facts:
    """Return the headline facts in reading order: steps, devices, top ops, memory, recording, metadata.

    Those of a part are of all that lies in it; what was recorded is said of the whole.
    """
    shown = _shown(trace, part)
    sections = (
        *(() if shown.is_range else (watched_run(trace),)),
        _idle_in(trace, shown) if shown.is_range else _why_idle(trace),
        Section(
            title="Where the host's time goes",
            facts=_phases_in(trace, part) if shown.is_range else _phases(counted_rows(trace)),
            kind="phases",
            # A range or a box of a flame graph with a name holds its Python, too, so that it is longer.
            aside=f"{'per step' if not shown.is_range else shown.each}, Python on its own",
        ),
        *(() if shown.is_range else (_budget(trace), _serving(trace), _ladder(trace))),
        _waits(trace, shown),
        _loaders(trace, shown),
        Section(title="Memory", facts=_memory(trace, part), kind="memory"),
        _holders(trace),
        _top_ops(trace, shown),
        _top_modules(trace, shown),
        _top_lines(trace, shown),
        Section(title="Steps", facts=_steps(trace), group="about"),
        *_devices(trace),
        Section(title="Recording", facts=_recording(trace), group="about"),
        Section(title="Process groups", facts=_process_groups(trace), group="about"),
        Section(title="Metadata", facts=_metadata(trace), group="about"),
    )
    return Facts(sections=tuple(section for section in sections if section.facts or section.lanes))


def _why_idle(trace: Trace) -> Section:
    """Return the idle time of the busiest device per step, by cause; it adds up."""
    account = device_account(trace)
    if account is None:
        return Section(title=DEVICE_WAITS, facts=())
    causes = sorted((_idle_cause(account, name) for name in CAUSE_TITLES), key=lambda cause: -cause.ns)
    idle_ns = account.whole_ns - account.busy_ns
    facts = tuple(
        Fact(
            label=CAUSE_TITLES[cause.kind],
            value=float(cause.ns / account.steps),
            unit="ns",
            note=_most_in(trace, cause.kind, cause.name),
            phase="waiting",
            op=cause.name,
            view="timeline",
        )
        for cause in causes
        if cause.ns
    )
    each = "per step" if account.has_steps else "in all"
    aside = f"{each}, of {format_ns(idle_ns / account.steps)}"
    return Section(title=DEVICE_WAITS, facts=facts, kind="bars", aside=aside, group=_place_of_waits(trace))


def _place_of_waits(trace: Trace) -> Literal["main", "more"]:
    """Return where the waits of a device stand: they are no answer where the device's own work is the limit."""
    return "more" if find_verdict(trace).kind in ("compute", "memory_traffic") else "main"


def _shown_name(trace: Trace, name: str) -> str:
    return fused_titles(trace).get(name) or short_name(call_as_shown(trace, short_scope(name)))


def _most_in(trace: Trace, cause: str, name: str) -> str:
    """Return the name with most of a time; of what is spread over many ops it can have little, so that is said."""
    shown = _shown_name(trace, name)
    return f"most in {shown}" if name and cause in _SPREAD else shown


def _ladder(trace: Trace) -> Section:
    """Return the step as it is, and after each of what limits it is fixed, one after the other."""
    before_ns, rungs = ladder(trace)
    now = Fact(label="Now", value=before_ns, unit="ns", note="as recorded", phase="python")
    facts = tuple(
        Fact(label=f"{rung.change[0].upper()}{rung.change[1:]}", value=rung.step_ns, unit="ns", phase="forward")
        for rung in rungs
    )
    return Section(title=LADDER, facts=(now, *facts) if facts else (), kind="bars", aside=_after(trace), group="more")


def _after(trace: Trace) -> str:
    return "per step after each" if has_counted_steps(trace) else "all after each"


def _idle_in(trace: Trace, shown: _Shown) -> Section:
    """Return the idle time of the busiest device in a range, by cause; it adds up."""
    account = device_account(trace)
    title = DEVICE_WAITS
    if account is None:
        return Section(title=title, facts=())
    rows = idle_table(trace, shown.part).frame.filter(pl.col("device") == account.device)
    longest = pl.col("name").sort_by("idle_ns", descending=True).first()
    causes = rows.group_by("cause").agg(pl.col("idle_ns").sum(), longest).sort("idle_ns", "cause", descending=True)
    facts = tuple(
        Fact(
            label=CAUSE_TITLES[cause],
            value=float(idle_ns),
            unit="ns",
            note=_most_in(trace, cause, name or ""),
            phase="waiting",
            op=name or "",
            view="timeline",
        )
        for cause, idle_ns, name in causes.iter_rows()
    )
    aside = f"{shown.each}, of {format_ns(int(rows['idle_ns'].sum()))}"
    return Section(title=title, facts=facts, kind="bars", aside=aside, group=_place_of_waits(trace))


def _idle_cause(account: Account, name: str) -> Cause:
    """Return a cause of idle time; of communication only the part in which the device idles."""
    cause = account.causes[name]
    if name != "communication":
        return cause
    ns = cause.ns - account.exposed_ns
    # It is named after the larger part.
    return replace(cause, ns=ns, name=cause.name if ns > account.exposed_ns else "")


# The phases of what holds the host without a device.
_PHASE_OF_RULE = {"wait": "idle", "garbage": "python"}


def _waits(trace: Trace, shown: _Shown) -> Section:
    """Return what holds the host longest, and how much of that a device works, or the line that waits."""
    frame = waits_table(trace, shown.part).frame
    facts = tuple(
        Fact(
            label=row["call"] or row["rule"],
            value=float(row["total_ns"] / shown.steps),
            unit="ns",
            note=_wait_note(trace, row),
            phase=_PHASE_OF_RULE.get(row["rule"], "waiting"),
            op="" if row["rule"] in HOST_RULES else row["call"],
            view="timeline",
        )
        for row in frame.head(TOP_WAITS).to_dicts()
    )
    has_calls = frame.filter(~pl.col("rule").cast(pl.String).is_in([*HOST_RULES])).height > 0
    title = "Blocking calls" if has_calls else "Sleeping and waiting"
    return Section(title=title, facts=facts, kind="bars", aside=shown.each, group="more")


def _wait_note(trace: Trace, row: dict[str, Any]) -> str:
    if row["rule"] in HOST_RULES:
        return place_of(trace, row["file"], row["line"])
    return ", ".join(filter(None, (row["op"] or row["annotation"] or "", _busy_note(row))))


def _loaders(trace: Trace, shown: _Shown) -> Section:
    """Return how long the program waits for batches, and how often its workers had none ready."""
    facts = tuple(
        Fact(
            label="DataLoader",
            value=float(row["total_ns"] / shown.steps),
            unit="ns",
            note=place_of(trace, row["file"], row["line"])
            if row["late"] is None
            else f"not ready {format_count(row['late'])} of {counted(row['count'], 'time')}",
            phase="data",
        )
        for row in loaders_table(trace, shown.part).frame.head(TOP_WAITS).to_dicts()
    )
    return Section(title="Loading data", facts=facts, kind="bars", aside=shown.each)


def _busy_note(row: dict[str, Any]) -> str:
    share = row["device_busy_ns"] / max(row["total_ns"], 1)
    return f"device busy {format_ratio(share)}"


def _top_lines(trace: Trace, shown: _Shown) -> Section:
    on_device = is_decided_on_device(trace)
    both_ns = pl.col("device_ns") + pl.col("backward_device_ns")
    frame = lines_table(trace, shown.part).frame.with_columns((both_ns if on_device else pl.col("cpu_ns")).alias("ns"))
    rows = frame.filter(pl.col("ns") > 0).sort("ns", "line", descending=[True, False]).head(TOP_ROWS)
    is_watched = bool((trace.sites["kind"] == "line").any())
    facts = tuple(
        Fact(
            label=_line_label(trace, row, is_watched=is_watched),
            op=row["source"] or "",
            value=float(row["ns"] / shown.steps),
            unit="ns",
            note=_line_note(trace, row, shown.steps, is_watched=is_watched, on_device=on_device),
            phase=_main_phase(row, on_device=on_device),
            view="source",
            spot=spot_of(trace, row["file"], row["line"]),
        )
        for row in rows.to_dicts()
    )
    where = "device" if on_device else "host"
    return Section(title="Lines", facts=facts, kind="bars", aside=f"{where} time {shown.each}", group="top")


def _line_label(trace: Trace, row: dict[str, Any], *, is_watched: bool) -> str:
    """Return a line by its number and text; a function of a file by its name."""
    if not row["source"]:
        return place_of(trace, row["file"], row["line"])
    return f"{row['line']}  {row['source'].strip()}" if is_watched else str(row["source"])


def _line_note(trace: Trace, row: dict[str, Any], steps: float, *, is_watched: bool, on_device: bool) -> str:
    """Return the place of a function, where its name is the label, and the part in the backward pass."""
    place = "" if is_watched or not row["source"] else place_of(trace, row["file"], row["line"])
    backward_ns = row["backward_device_ns" if on_device else "backward_cpu_ns"] / steps
    return " · ".join(filter(None, (place, f"{format_ns(backward_ns)} backward" if backward_ns else "")))


def _main_phase(row: dict[str, Any], *, on_device: bool) -> str:
    """Return the phase of the largest part of a line."""
    parts = {row["phase"]: row["own_cpu_ns"], "backward": row["backward_cpu_ns"], "waiting": row["wait_ns"]}
    if on_device:
        parts = {row["phase"]: row["device_ns"], "backward": row["backward_device_ns"]}
    return max(parts, key=lambda phase: parts[phase]) or "forward"


def _top_modules(trace: Trace, shown: _Shown) -> Section:
    frame = modules_table(trace, shown.part).frame.filter(pl.col("class_name") != "")
    on_device = is_decided_on_device(trace)
    by = pl.col("self_device_ns") if on_device else pl.col("self_cpu_ns") + pl.col("self_backward_cpu_ns")
    rows = frame.group_by("class_name").agg(by.sum().alias("ns"), pl.col("calls").sum()).filter(pl.col("ns") > 0)
    rows = rows.sort("ns", "class_name", descending=[True, False]).head(TOP_ROWS)
    facts = tuple(
        Fact(
            label=row["class_name"],
            value=float(row["ns"] / shown.steps),
            unit="ns",
            note=_calls(row["calls"], shown.steps),
            phase="forward",
            view="modules",
        )
        for row in rows.to_dicts()
    )
    # Backward on the device is not known by module.
    has_backward = not on_device and bool(frame["self_backward_cpu_ns"].sum())
    parts = "forward and backward" if has_backward else "forward"
    aside = f"self {'device' if on_device else 'host'} time {shown.each}, {parts}"
    return Section(title="Modules", facts=facts, kind="bars", aside=aside, group="top")


# The hues of the parts of the budget. Of two neighbors with the same, the second is drawn lighter.
_BUDGET_PHASES = {
    "compute_roof": "forward",
    "compute_above": "forward",
    "memory_roof": "backward",
    "memory_above": "backward",
    "other_work": "optimizer",
    "copies": "data",
    "dispatch": "initialisation",
    "unknown": "idle",
}


def _budget(trace: Trace) -> Section:
    """Return what a step spends its time on, where the work of any of it is known; the parts add up to it."""
    title = "How near the limit"
    if not has_work(trace):
        return Section(title=title, facts=())
    frame, chosen = budget_table(trace).frame, counted_steps(trace)
    rows = frame[chosen.row.tolist()] if trace.steps.height else frame
    if rows.height == 0:
        return Section(title=title, facts=())
    facts = tuple(
        Fact(
            label=BUDGET_TITLES[part],
            value=float(rows[f"{part}_ns"].sum()) / chosen.steps,
            unit="ns",
            note=_OF_BUDGET.get(part, ""),
            phase=_BUDGET_PHASES.get(part, part),
        )
        for part in PARTS
        if rows[f"{part}_ns"].sum() > 0
    )
    ratios = {rows[f"{name.lower()}_ratio"].mean(): name for name in ("HFU", "MFU")}
    least = " at least" if _lacks_flops(trace, rows) else ""
    said = [f"{name}{least} {format_ratio(ratio)}" for ratio, name in ratios.items() if isinstance(ratio, float)]
    if not has_roof(trace):
        said += [f"no known peak of {_device_called(trace)}"]
    for name, label in (("sm_active_ratio", "SM active"), ("dram_active_ratio", "DRAM active")):
        active = rows[name].mean()
        said += [f"{label} {format_ratio(active)}"] if isinstance(active, float) else []
    joules = rows["joules"].mean()
    said += [f"{format_count(joules)} J"] if isinstance(joules, float) else []
    aside = ", ".join((_each(trace), *said))
    return Section(title=title, facts=facts, kind="stack", aside=aside, group="more")


# More work than this part of all of it may hide FLOPs, where it is not known.
_MUCH_UNKNOWN = 0.1


def _lacks_flops(trace: Trace, rows: pl.DataFrame) -> bool:
    """Return whether FLOPs are known of a part only: the work of much time is not, or that of a convolution."""
    worked = sum(
        float(rows[f"{part}_ns"].sum()) for part in ("compute_roof", "compute_above", "memory_roof", "memory_above")
    )
    other = float(rows["other_work_ns"].sum())
    is_convolution = is_named(trace, r"^aten::convolution(_backward)?$")
    lacks = bool((is_convolution & ~are_known(flops_of_calls(trace))).any())
    return lacks or other > _MUCH_UNKNOWN * (worked + other)


def _device_called(trace: Trace) -> str:
    name = device_name(trace, busiest_device(trace))
    return "the CPU" if name == CPU else name or "this device"


def _serving(trace: Trace) -> Section:
    """Return the steps of an inference server by kind, with what limits each."""
    rows = serving_kinds_table(trace).frame.to_dicts()
    verdicts = _verdicts_of_kinds(trace)
    facts = tuple(
        Fact(
            label=row["kind"] or "other",
            value=float(row["mean_ns"]),
            unit="ns",
            note=", ".join(
                filter(
                    None,
                    (
                        verdicts.get(row["kind"], ""),
                        *_served(row),
                        f"{format_ratio(row['limit_ratio'])} {row['limit']}",
                    ),
                )
            ),
            phase="forward",
        )
        for row in rows
        if row["limit_ratio"] is not None
    )
    return Section(title="Steps of the server, on average", facts=facts)


def _verdicts_of_kinds(trace: Trace) -> dict[str, str]:
    """Return what limits the steps of each kind, as the verdict says where only they count; without other steps."""
    if not are_of_server(trace):
        return {}
    kinds = [each.kind for each in server_steps(trace).requests]
    chosen = {kind: [row for row, each in enumerate(kinds) if each == kind] for kind in kinds}
    return {kind: find_verdict(with_chosen_steps(trace, rows)).title for kind, rows in chosen.items()}


def _served(row: dict[str, Any]) -> tuple[str, ...]:
    per_token = f"{format_ns(row['ns_per_token'])} a token" if row["ns_per_token"] is not None else ""
    return counted(row["steps"], "step"), f"{format_count(row['requests_per_step'])} requests", per_token


_OF_BUDGET = {
    "compute_above": "what faster kernels could save at most",
    "memory_above": "what faster kernels could save at most",
    "other_work": "its operations, bytes or roof are not known",
    "unknown": "the recording does not say",
}


def _each(trace: Trace) -> str:
    """Return what times stand for: they are means of the steps where there are some."""
    return "per step" if has_counted_steps(trace) else "in all"


def _calls(calls: int, steps: float) -> str:
    """Return the calls per step, like the times beside them."""
    return counted(calls / steps, "call")


def _number(label: str, value: float, unit: Unit, note: str = "", op: str = "") -> Fact:
    known = float(value) if np.isfinite(value) else None
    return Fact(label=label, value=known, unit=unit, note=note, op=op)


def _phases(steps: pl.DataFrame) -> tuple[Fact, ...]:
    means = with_one_wait({phase: float(steps[f"{phase}_ns"].mean() or 0) for phase in PHASES})  # type: ignore[arg-type]
    return tuple(_number(phase, mean, "ns", "adds up to the step") for phase, mean in means.items() if mean)


def _phases_in(trace: Trace, part: TimeRange) -> tuple[Fact, ...]:
    """Return the phases of the steps in a range; they add up to the part of the range that steps take."""
    times = with_one_wait(phases_in(trace, part))
    return tuple(_number(phase, ns, "ns", "adds up to the steps in it") for phase, ns in times.items() if ns)


def _steps(trace: Trace) -> tuple[Fact, ...]:
    steps, counts = steps_table(trace).frame, counted_rows(trace)
    if steps.height == 0:
        return ()
    left_out = steps.height - counts.height
    rest = f", {counted(left_out, 'step')} left out" if left_out else ""
    mean = _number("Mean step", counted_steps(trace).mean_ns, "ns", f"over {counted(counts.height, 'step')}{rest}")
    if steps.height == 1:
        return (mean,)
    dur, every = counts["dur_ns"].to_numpy(), steps["dur_ns"].to_numpy()
    with np.errstate(invalid="ignore"):  # steps of no length have no spread
        spread = np.std(dur) / dur.mean()
    return (
        mean,
        _number("Slowest step", every.max(), "ns", f"step {steps['number'][int(every.argmax())]}"),
        _number("Spread", spread, "ratio", "standard deviation over mean"),
    )


def _devices(trace: Trace) -> list[Section]:
    rows = devices_table(trace).frame.to_dicts()
    return [Section(title=f"Device {row['device']}", facts=_device(row), group="about") for row in rows]


def _device(row: dict[str, Any]) -> tuple[Fact, ...]:
    facts = [Fact(label="Name", value=row["name"], unit="text")] if row["name"] else []
    facts.append(
        _number("Busy", row["busy_ns"], "ns", "in the whole recording, with at least one kernel, copy or fill running")
    )
    if row["launched_busy_ns"] != row["busy_ns"]:
        note = "without work that was queued before the recording began"
        facts.append(_number("Busy, launched in the recording", row["launched_busy_ns"], "ns", note))
    share = row["busy_ns"] / max(row["window_ns"], 1)
    span = f"of the {format_ns(row['window_ns'])} from its first work to its last, without the waits around them"
    facts.append(_number("Busy share", share, "ratio", span))
    facts.append(_number("Summed work", row["sum_ns"], "ns", "in the whole recording, summed over streams"))
    if row["comm_kernels"]:
        note = f"{counted(row['comm_kernels'], 'collective')}, union over streams"
        facts.append(_number("Communication", row["comm_ns"], "ns", note))
        facts.append(
            _number("Exposed communication", row["exposed_comm_ns"], "ns", "no computation ran at the same time")
        )
    return tuple(facts)


def _top_ops(trace: Trace, shown: _Shown) -> Section:
    on_device = is_decided_on_device(trace)
    by, where = ("self_device_ns", "device") if on_device else ("self_cpu_ns", "host")
    every = ops_table(trace, shown.part).frame
    if on_device and is_mostly_in_no_op(every):
        return _top_kernels(trace, shown)
    rows = every.filter(pl.col(by) > 0, ~is_scope())
    rows = rows.sort(by, descending=True, nulls_last=True, maintain_order=True).head(TOP_ROWS)
    facts = tuple(
        Fact(
            label=fused_titles(trace).get(row["name"], row["name"]),
            value=float(row[by] / shown.steps),
            unit="ns",
            note="" if row["kind"] == NO_OP else _calls(row["calls"], shown.steps) + _beside(trace, row, by, shown),
            op=row["name"],
            phase=row["phase"],
            view="ops",
        )
        for row in rows.to_dicts()
    )
    aside = f"self {where} time {shown.each}{_beyond_busy(trace, shown) if on_device else ''}"
    return Section(title="Ops", facts=facts, kind="bars", aside=aside, group="top")


def _beside(trace: Trace, row: dict[str, Any], by: str, shown: _Shown) -> str:
    """Return on how many lanes an op ran, where its calls beside each other add up to more than the time itself."""
    whole_ns = shown.part.end_ns - shown.part.start_ns if shown.is_range else counted_steps(trace).whole_ns
    if by != "self_cpu_ns" or row[by] <= whole_ns:
        return ""
    events = trace.events.filter(pl.col("name").cast(pl.String) == row["name"])
    ran = shown.part.touches(*(events[name].to_numpy() for name in ("start_ns", "dur_ns")))
    lanes = events.filter(ran)["lane"].n_unique()
    return f" on {counted(lanes, 'thread')}" if lanes > 1 else ""


def _top_kernels(trace: Trace, shown: _Shown) -> Section:
    """Return the kernels with the most time, for work whose ops are not known."""
    rows = kernels_table(trace, shown.part).frame.filter(pl.col("sum_ns") > 0).head(TOP_ROWS)
    facts = tuple(
        Fact(
            label=fused_titles(trace).get(row["name"], row["name"]),
            value=float(row["sum_ns"] / shown.steps),
            unit="ns",
            note=_calls(row["calls"], shown.steps),
            op=row["name"],
            phase=row["phase"],
            view="kernels",
        )
        for row in rows.to_dicts()
    )
    aside = f"device time {shown.each}{_beyond_busy(trace, shown)}"
    return Section(title="Kernels", facts=facts, kind="bars", aside=aside, group="top")


def _beyond_busy(trace: Trace, shown: _Shown) -> str:
    """Say of what the device time of ops consists, as their table does, where it is seen to be more than busy."""
    time = device_time(trace, shown.part)
    if time is None or time.overlap_ns + time.outside_ns < _SEEN_SHARE * time.busy_ns:
        return ""
    parts = (
        (time.busy_ns, f"busy on {time.devices} devices" if time.devices > 1 else "busy"),
        (time.overlap_ns, "on other streams at the same time"),
        (time.outside_ns, "outside of steps" if time.has_steps else "before the first op"),
    )
    least_ns = _SEEN_SHARE * time.busy_ns / 2
    return ": " + " + ".join(f"{format_ns(ns / shown.steps)} {what}" for ns, what in parts if ns > least_ns)


def _memory(trace: Trace, part: TimeRange) -> tuple[Fact, ...]:
    facts = []
    for (lane,), curve in memory_series(trace).frame.group_by("lane", maintain_order=True):
        rows = _levels_in(curve, part)
        if rows.height == 0:
            continue
        note = starting_note(trace, str(lane)) or own_note(trace, str(lane))
        facts.append(_number(f"Peak on {lane}", rows["allocated_bytes"].max() or 0, "bytes", note))  # type: ignore[arg-type]
        if (reserved := rows["reserved_bytes"].max()) is not None:
            facts.append(_number(f"Reserved on {lane}", reserved, "bytes"))  # type: ignore[arg-type]
    return (*facts, *(_largest_saving(trace) if part == WHOLE else ()))


def _levels_in(rows: pl.DataFrame, part: TimeRange) -> pl.DataFrame:
    """Return the levels of a curve in a part: the one that it begins with, and those that come in it."""
    time_ns = rows["time_ns"].to_numpy()
    first = max(int(np.searchsorted(time_ns, part.start_ns, side="right")) - 1, 0)
    return rows[first : int(np.searchsorted(time_ns, part.end_ns))]


def _holders(trace: Trace) -> Section:
    """Return who allocated what a snapshot holds at the peak, on the device with the highest one."""
    held = held_by_line(trace) if is_snapshot(trace) else None
    if held is None or held.height == 0:
        return Section(title="Who holds it", facts=())
    sums = held.group_by("device", maintain_order=True).agg(pl.col("size_bytes").sum())
    device = sums["device"][int(sums["size_bytes"].arg_max() or 0)]
    held = held.filter(pl.col("device") == device)
    unnamed = _unnamed(alive_at(trace, "peak", device))
    facts = tuple(_holder(trace, row, unnamed) for row in held.head(TOP_ROWS).to_dicts())
    if (rest := held[TOP_ROWS:]).height:
        label = f"{format_count(rest.height)} more"
        facts = (*facts, Fact(label=label, value=float(rest["size_bytes"].sum()), unit="bytes"))
    return Section(title="Who holds it", facts=facts, kind="bars", aside=f"at the peak of {device}")


def _unnamed(blocks: pl.DataFrame) -> str:
    """Return what blocks without a line and a function are called: by when they were allocated, if that tells why."""
    unnamed = blocks.filter(pl.col("line").is_null() & pl.col("function").is_null())["allocated_at_ns"]
    return "From before the recording" if unnamed.null_count() == len(unnamed) else "Without a stack"


def _holder(trace: Trace, row: dict[str, Any], unnamed: str) -> Fact:
    file, _, line = (row["line"] or "").rpartition(":")
    place = place_of(trace, file, int(line) if line.isdecimal() else None)
    name = short_name(row["function"]) if row["function"] else ""
    note = place if name else counted(row["blocks"], "block")
    size_bytes = float(row["size_bytes"])
    return Fact(label=name or place or unnamed, value=size_bytes, unit="bytes", note=note, view="memory")


def _largest_saving(trace: Trace) -> list[Fact]:
    """Return what would lower a peak most, as an estimate."""
    return [
        Fact(
            label=title_of(row["action"], row["module"]),
            value=float(row["saved_bytes"]),
            unit="bytes",
            note=f"less at the peak on {row['device']}, an estimate{_added_time(trace, row['added_time_ns'])}",
            view="savings",
        )
        for row in savings_table(trace).frame.head(1).to_dicts()
    ]


def _added_time(trace: Trace, time_ns: int | None) -> str:
    return "" if time_ns is None else f", + {format_ns(time_ns)} {_each(trace)}"


def _recording(trace: Trace) -> tuple[Fact, ...]:
    if has_graph(trace):
        return _graph(trace)
    events = trace.events
    threads = trace.lanes.filter(pl.col("kind") == "thread").height
    facts = [_number("Events", int((~on_captured_lanes(trace)).sum()), "count"), _number("Threads", threads, "count")]
    if work := events.filter(pl.col("category").is_in(DEVICE_CATEGORIES)).height:
        facts.append(_number("Kernels, copies and fills", work, "count"))
    facts += _flops(trace)
    facts += _work(trace)
    if (found := find_distortion(trace)) is not None:
        facts.append(_number("Step without profiler", found.plain_ns, "ns", "mean without outliers"))
        way = "Longer" if found.ratio >= 1 else "Shorter"  # shorter by chance, or because the first steps do more
        facts.append(_number(f"{way} when recorded", abs(found.ratio - 1), "ratio", found.basis))
    return tuple(facts)


def _graph(trace: Trace) -> tuple[Fact, ...]:
    """Return how much is in an execution trace; tensors by where they are."""
    tensors = graph_tensors_table(trace).frame.group_by("device").agg(pl.len(), pl.col("size_bytes").sum())
    names = trace.graph_ops["name"].n_unique()
    return (
        _number("Calls", trace.graph_ops.height, "count", f"of ops and ranges with {counted(names, 'name')}"),
        *(
            _number(f"Tensors on {device}", size_bytes, "bytes", counted(count, "tensor"))
            for device, count, size_bytes in tensors.sort("device").rows()
        ),
    )


def _flops(trace: Trace) -> tuple[Fact, ...]:
    """Return the known FLOPs, and the share of time that lies in ops of which they are known."""
    share = modelled_ratio(trace)
    if share is None:
        return ()
    flops = float(flops_in(trace, counted_part(trace)).sum())
    time = "device time" if trace.has_device else "host time of ops"
    return (
        _number("FLOPs", flops / counted_steps(trace).steps, "flop", _each(trace)),
        _number("In ops with known FLOPs", share, "ratio", f"of the {time}"),
    )


def _work(trace: Trace) -> tuple[Fact, ...]:
    """Return the share of time whose work is known, and what the device can do at most, or that this is not known."""
    share = known_ratio(trace)
    if share is None:
        return ()
    peak = peak_of_device(trace, busiest_device(trace))
    time = "device time" if trace.has_device else "host time of ops"
    found = Fact(label="Peak", value="not known", unit="text", note=_how_to_know(trace))
    if peak is not None:
        limits = ", ".join(roof_titles(trace))
        found = Fact(label="Peak", value=peak.title, unit="text", note=f"{limits}. {peak.origin}")
    return (
        _number("In work of known size", share, "ratio", f"of the {time}; docs/formulas.md lists what is known"),
        found,
    )


def _how_to_know(trace: Trace) -> str:
    return "tp.peaks.add() sets it" if trace.has_device else "tp.measure_peak() measures it"


def _process_groups(trace: Trace) -> tuple[Fact, ...]:
    groups = trace.meta.process_groups
    facts = [
        Fact(
            label=f"{group.name} {group.description}".strip(),
            value=": ".join(filter(None, (counted(group.size, "rank"), ranks_text(group.ranks)))),
            unit="text",
            note=group.backend,
        )
        for group in groups[:MAX_GROUPS]
    ]
    if len(groups) > MAX_GROUPS:
        more = f"{counted(len(groups) - MAX_GROUPS, 'group')} in report.process_groups"
        facts.append(Fact(label="More", value=more, unit="text"))
    return tuple(facts)


def _metadata(trace: Trace) -> tuple[Fact, ...]:
    """Return the metadata of the file, as texts."""
    meta = trace.meta
    facts = [(key, text) for key, text in meta.extra if not key.startswith(TRACE_ID)]
    if meta.rank is not None:
        where = f"{meta.rank} of {meta.world_size}" if meta.world_size else str(meta.rank)
        facts.insert(0, ("Rank", f"{where}, {meta.backend}" if meta.backend else where))
    return tuple(Fact(label=key, value=text, unit="text") for key, text in facts)
