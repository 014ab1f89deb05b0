"""What makes a verdict doubtful: few, uneven or distorted steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.believable import as_recorded
from torchprof_magic.facts.device.coverage import launches_of, launches_per_step, loss_of
from torchprof_magic.facts.device.plausible import impossible_times
from torchprof_magic.facts.device.unlaunched import unlaunched
from torchprof_magic.facts.host.crowding import crowding
from torchprof_magic.facts.host.distortion import find_distortion, longer_steps
from torchprof_magic.facts.host.host_lines import line_seen_in, seen_lines
from torchprof_magic.facts.host.one_time import new_ops_ratio
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.shared import device_rows, in_category, once_per_trace
from torchprof_magic.findings.more_steps import more_steps
from torchprof_magic.findings.verdict.accounts import device_account, named_pieces
from torchprof_magic.findings.verdict.diagnosis import in_steps, launches_without_work, unmatched_share
from torchprof_magic.findings.verdict.once import IMPORTS, one_time_within, one_time_work, work_from_before
from torchprof_magic.findings.verdict.words import cut_name, once_words, place_of
from torchprof_magic.model.outliers import OUTLIER_RATIO
from torchprof_magic.model.rows import keys_of
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio
from torchprof_magic.tables.steps import steps_table

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.meta import StepMark
    from torchprof_magic.model.trace import Trace

LEAST_STEPS = 3
LOUD_DISTORTION = 1.5
LOUD_LONGER, LEAST_LONGER = 0.25, 2
LOUD_SPREAD = 0.2
LOUD_TREND = 0.2
LEAST_STEPS_WITH_TREND = 5
LOUD_ONCE = 0.05
MOSTLY_NEW = 0.5
LOUD_EMPTY = 0.05
LOUD_UNMATCHED = 0.05
LONG_NS = 10_000  # for the usual duration of work that lasts 0 ns in the file
LOUD_PART = 0.25  # of what makes a step an outlier
LOUD_BEFORE = 0.1
LOUD_HOST = 0.25
LOUD_IMPORTS = 0.1
_OF_THE_FILE = ("chrome.", "json.", "file.", "capture.device_stopped")
LOUD_CROWDING = 0.25
# What the doubt ends with where the verdict names what is done once.
_DONE_ONCE = "this is done once."


def find_doubts(trace: Trace) -> tuple[str, ...]:
    """Return sentences about what makes the verdict doubtful, the gravest first; empty if nothing does."""
    doubts = (
        _incomplete, _sparse, _unlaunched, _unmatched, _instant, _lost, _impossible, _one_time, _imports, _from_before,
        _cold_outliers, _stacks, _distorted, _crowded, _longer, _warming_up, _other_outliers, _uneven, _few,
    )  # fmt: skip
    found = [doubt(trace) for doubt in doubts]
    return tuple(sentence for sentence in found if sentence)


def is_incomplete(trace: Trace) -> bool:
    """Return whether work of the device is missing in the steps that count, or in a recording without steps."""
    found = loss_of(trace)
    if not (found.missing or found.short):
        return False
    numbers = trace.steps["number"].to_numpy()[counted_steps(trace).row]
    return trace.steps.height == 0 or bool(np.isin(numbers, found.steps).any())


def _incomplete(trace: Trace) -> str:
    found = loss_of(trace)
    if not (found.missing or found.short):
        return ""
    what = f"{launches_without_work(trace)} in the file"
    if not found.missing:
        what = f"{counted(found.short, 'kernel')} of graphs {'is' if found.short == 1 else 'are'} missing"
    if is_incomplete(trace):
        return f"{what} ({format_ratio(found.ratio)}), so the device may have been busier than it seems."
    left_out = "that step is" if len(found.steps) == 1 else "these steps are"
    return f"{what}{in_steps(trace, found.steps)}; {left_out} left out."


def _sparse(trace: Trace) -> str:
    """Return that some steps launch far less than the others, as they do where part of them was not recorded."""
    chosen = counted_steps(trace)
    if len(chosen.sparse) == 0:
        return ""
    launches = launches_per_step(trace, launches_of(trace).counts)
    usual = format_count(float(np.median(launches[chosen.row]))) if len(chosen.row) else "more"
    fewest = int(chosen.sparse[launches[chosen.sparse].argmin()])
    number = trace.steps["number"][fewest]
    rest = f", and {counted(len(chosen.sparse) - 1, 'other step')} few" if len(chosen.sparse) > 1 else ""
    left_out = "it is left out" if len(chosen.sparse) == 1 else "they are left out"
    has = counted(int(launches[fewest]), "launch")
    return f"Step {number} has {has} where others have {usual}{rest}, so part of it may be missing; {left_out}."


def _unlaunched(trace: Trace) -> str:
    """Return that ops launch less than in other steps, unless these steps are left out anyway."""
    found, chosen = unlaunched(trace), counted_steps(trace)
    if not np.isin(trace.steps["number"].to_numpy()[chosen.row], found.steps).any():
        return ""
    launches = (
        f"{format_count(found.launches)} of {counted(found.of, 'launch')} ({format_ratio(found.launches / found.of)})"
    )
    return f"At least {launches} are probably not in the file: ops launch more in the same place of other steps."


def _unmatched(trace: Trace) -> str:
    """Return that work of graphs has no op although captures are known, if it is not little."""
    found = unmatched_share(trace)
    if found is None or found[1] < LOUD_UNMATCHED:
        return ""
    kernels, share = found
    have = "fits" if kernels == 1 else "fit"
    return f"{counted(kernels, 'kernel')} of graphs ({format_ratio(share)} of the device time) {have} no capture."


def _instant(trace: Trace) -> str:
    """Return that work of the device has no duration in the file, where its times are fine enough to tell.

    Times in whole µs are too coarse for the shortest kernels, but not for those that usually last longer.
    """
    recorded = as_recorded(trace)
    if not recorded.has_device:
        return ""
    work = recorded.events.select("name", "start_ns", "dur_ns")[device_rows(recorded)]
    dur = pl.col("dur_ns")
    if not (work["start_ns"] % 1_000 != 0).any():
        usual_ns = dur.filter(dur > 0).median().over("name")
        work = work.filter((dur > 0) | (usual_ns >= LONG_NS))
    share = int((work["dur_ns"] == 0).sum()) / max(work.height, 1)
    if share < LOUD_EMPTY:
        return ""
    return f"{format_ratio(share)} of the device's work lasts 0 ns in the file, so the device may have been busier."


def _impossible(trace: Trace) -> str:
    found, is_corrected = impossible_times(as_recorded(trace)), as_recorded(trace) is not trace
    if found.clocks:
        worst = max(found.clocks, key=lambda clock: abs(clock.ahead_ns))
        corrected = ", which is corrected" if is_corrected else ""
        return f"The clock of the device was off by about {format_ns(abs(worst.ahead_ns))}{corrected}."
    cut_off = "; what is impossible was cut off" if is_corrected and len(found.clipped) else ""
    what = "One piece" if found.works == 1 else f"{format_count(found.works)} pieces"
    have = "has times" if found.works == 1 else "have times"
    return f"{what} of the device's work {have} that cannot be true{cut_off}." if found.works else ""


def _distorted(trace: Trace) -> str:
    found = find_distortion(trace)
    if found is None or found.ratio < LOUD_DISTORTION:
        return ""
    return (
        f"Recorded steps took {format_count(found.ratio)} times as long as others, so shares may differ without "
        f"the profiler."
    )


def _longer(trace: Trace) -> str:
    """Return that steps of which the figures are not took most of the time, as where only each tenth does something."""
    found = longer_steps(trace)
    if found.steps < LEAST_LONGER or found.ratio < LOUD_LONGER or trace.meta.watched is not None:
        return ""
    count, share = f"{format_count(found.steps)} of {counted(found.of, 'step')}", format_ratio(found.ratio)
    more = "Record more steps, with --active."
    if found.begin is not None:
        more = f"From about step {found.begin} on, most take that long: record those, with --wait {found.begin}."
    return (
        f"{count} without the profiler took more than {OUTLIER_RATIO} times as long as each that counts, "
        f"{share} of their time: what takes longer there is in none of these figures. {more}"
    )


def _lost(trace: Trace) -> str:
    """Return that events of the file were lost on its way here, or before it was written."""
    found = [each for each in trace.problems if each.severity == "data_loss" and each.code.startswith(_OF_THE_FILE)]
    return f"Part of the recording is lost: {found[0].message}" if found else ""


def _one_time(trace: Trace) -> str:
    """Return how much of the time is done once, however often the program repeats the rest."""
    once = one_time_work(trace)
    if once.ratio < LOUD_ONCE:
        return ""
    what = f", most of it {once_words(trace, once)}" if once.what else ""
    share = format_ratio(once.ratio)
    return f"For {share} of the recorded time the host does work that is done once{what}; {_again(trace)}."


def _again(trace: Trace) -> str:
    return "record later steps too" if trace.steps.height else "record a later call in the same process"


def without_one_time(trace: Trace, doubts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the doubts of a verdict that names what is done once: how much that is, and where, is told already."""
    told = _one_time(trace)
    again = _again(trace)
    return tuple(f"{again[0].upper()}{again[1:]}: {_DONE_ONCE}" if doubt == told else doubt for doubt in doubts)


def what_to_record(doubts: tuple[str, ...]) -> str:
    """Return the doubt that says what to record in place of what is done once; empty if that is not the limit."""
    return next((doubt for doubt in doubts if doubt.endswith(_DONE_ONCE)), "")


def _stacks(trace: Trace) -> str:
    """Return that recorded Python calls make Python longer, where it matters and no step tells by how much."""
    frames = in_category(trace, "python_function")
    is_known = find_distortion(trace) is not None or (trace.meta.two_pass is not None)
    account = device_account(trace)
    if is_known or not frames.any() or (account is not None and account.share("op dispatch", "python") < LOUD_HOST):
        return ""
    return "Python calls were recorded (with_stack), which makes Python and the calls of ops take longer than without."


def _from_before(trace: Trace) -> str:
    """Return how much of the device's time goes to work from before the recording, if the file has any launch."""
    if trace.has_device and not launches_of(trace).counts.any():
        return "No launch of the device's work is in the file, so what the device waits for is not known."
    before = work_from_before(trace)
    if before.ratio < LOUD_BEFORE:
        return ""
    share = f"{format_ratio(before.ratio)} of the time ({format_ns(before.ns)})"
    if before.is_recorded:
        return f"For {share} the device ran work that was launched before the recording."
    return f"Work of the device is missing from the file: for {share} launched work waits, and nothing runs."


def _crowded(trace: Trace) -> str:
    share = trace.meta.others_share
    if share is None or (crowding(trace.meta) or 0) < LOUD_CROWDING:
        return ""
    return f"Other programs used {format_ratio(share)} of the machine's cores meanwhile, which makes steps longer."


def _warming_up(trace: Trace) -> str:
    """Return that steps became steadily shorter, or longer."""
    chosen = counted_steps(trace)  # the first step holds the start of the recording, and is left out if that is much
    dur = chosen.end_ns - chosen.start_ns
    if len(chosen.row) < LEAST_STEPS_WITH_TREND:
        return ""
    change = np.diff(dur)
    third = max(len(dur) // 3, 1)
    ratio = np.median(dur[-third:]) / max(np.median(dur[:third]), 1)
    mostly = 0.75 * len(change)
    if ratio < 1 - LOUD_TREND and (change < 0).sum() >= mostly:
        return f"Steps became {format_ratio(1 - ratio)} shorter during the recording, so the warm-up was not over."
    if ratio > 1 + LOUD_TREND and (change > 0).sum() >= mostly:
        return f"Steps became {format_ratio(ratio - 1)} longer during the recording."
    return ""


def _cold_outliers(trace: Trace) -> str:
    """Return which steps are left out for being long, where the longest does what is done once."""
    found = _outliers(trace)
    return found.sentence if found.is_cold else ""


def _other_outliers(trace: Trace) -> str:
    """Return which steps are left out for being long, where the longest does nothing that is known to be done once."""
    found = _outliers(trace)
    return "" if found.is_cold else found.sentence


class _Outliers(NamedTuple):
    """What is said of long steps, and whether the longest of them does what is done once."""

    sentence: str
    is_cold: bool


@once_per_trace
def _outliers(trace: Trace) -> _Outliers:
    chosen = counted_steps(trace)
    if len(chosen.outliers) == 0:
        return _Outliers("", is_cold=False)
    dur = (trace.steps["end_ns"] - trace.steps["start_ns"]).to_numpy()
    worst = int(chosen.outliers[dur[chosen.outliers].argmax()])
    typical = float(np.median(dur[chosen.row])) if len(chosen.row) else 0.0
    number, ratio = trace.steps["number"][worst], dur[worst] / max(typical, 1)
    several = len(chosen.outliers) > 1
    rest = f"; {counted(len(chosen.outliers), 'long step')} are left out" if several else "; it is left out"
    why = work = _done_once(trace, worst, int(dur[worst] - typical))
    also = _also_imported(trace, worst)
    if not work:
        is_new = worst == 0 and number == 0 and new_ops_ratio(trace) >= MOSTLY_NEW and not also
        why = _difference(trace, worst, chosen.row) + (", and may have done what is done once" if is_new else "") + also
        rest += _first_of_outliers(trace, worst, typical)
    sentence = f"Step {number} took {format_count(ratio)} times as long as the median{why}{rest}."
    return _Outliers(sentence, is_cold=bool(work or also))


def _first_of_outliers(trace: Trace, worst: int, typical_ns: float) -> str:
    """Return what the first step did that is done once, where it is an outlier but not the worst one."""
    if worst == 0 or 0 not in counted_steps(trace).outliers:
        return ""
    start, end = trace.steps.select("start_ns", "end_ns").row(0)
    why = _done_once(trace, 0, int(end - start - typical_ns))
    return f". Step {trace.steps['number'][0]} took {format_ns(end - start)}{why}" if why else ""


def _done_once(trace: Trace, outlier: int, more_ns: int) -> str:
    """Return what an outlier did that is done only once, if that is a good part of its additional time."""
    start, end = (trace.steps[name].to_numpy()[outlier : outlier + 1] for name in ("start_ns", "end_ns"))
    once = one_time_within(trace, start, end)
    if once.ns < LOUD_PART * more_ns:
        return ""
    head, imported = f", {format_ns(once.ns)} of it for work that is done once: ", imported_in(trace, outlier)
    if not imported or once.what != IMPORTS:
        return f"{head}{once_words(trace, once)}{f', and imports of {imported}' if imported else ''}"
    place = place_of(trace, once.file, once.line)
    return f"{head}imports of {imported}, most of it {cut_name(once.name)}{f' in {place}' if place else ''}"


def _also_imported(trace: Trace, outlier: int) -> str:
    imported = imported_in(trace, outlier)
    return f", and imported {imported}, which is done once" if imported else ""


@once_per_trace
def _importing(trace: Trace) -> dict[tuple[int, int], StepMark]:
    """Return the steps that imported something, by cycle and number."""
    return {(mark.cycle, mark.number): mark for mark in trace.meta.recorded_steps if mark.imported}


def imported_in(trace: Trace, step: int) -> str:
    """Return what a step imported, such as ``214 modules (pandas, ...)``; empty for nothing."""
    importing = _importing(trace)
    mark = importing.get(keys_of(trace.steps)[step]) if importing else None
    if mark is None:
        return ""
    return f"{counted(mark.imported, 'module')} ({', '.join(map(cut_name, mark.imports))})"


def _imports(trace: Trace) -> str:
    """Return that modules were imported in steps that count, of which a good part is Python."""
    chosen = counted_steps(trace)
    if trace.host_lines["module"].is_not_null().any():
        return ""  # how long they took is known, and part of what is done once
    frame = steps_table(trace).frame
    share = frame["python_ns"].to_numpy() / np.maximum(frame["dur_ns"].to_numpy(), 1)
    found = [imported_in(trace, row) for row in chosen.row.tolist() if share[row] >= LOUD_IMPORTS]
    found = [each for each in found if each]
    return f"A step imported {found[0]}, which is done once; record later steps too." if found else ""


def _difference(trace: Trace, outlier: int, typical: IntArray) -> str:
    """Return in which phase an outlier spent most of its additional time."""
    frame = steps_table(trace).frame
    more = {
        phase: int(frame[f"{phase}_ns"][outlier]) - float(np.median(frame[f"{phase}_ns"].to_numpy()[typical]))
        for phase in PHASES
    }
    phase = max(more, key=more.__getitem__)
    if more[phase] <= 0 or len(typical) == 0:
        return ""
    place = _line_in(trace, outlier, phase)
    return f", {format_ns(more[phase])} longer in {phase}{f' ({place})' if place else ''}"


def _line_in(trace: Trace, step: int, phase: str) -> str:
    """Return the user's line with the most of a phase of a step; else one that was seen to run in it, with its call."""
    own = step_pieces(trace)
    here = np.flatnonzero((own.step == step) & (own.phase == PHASES.index(phase)))
    lines = named_pieces(trace, here).drop_nulls("file").group_by("file", "line").agg(pl.col("dur_ns").sum())
    if lines.height:
        file, line, _ = lines.sort("dur_ns", descending=True).row(0)
        return place_of(trace, file, line)
    found = line_seen_in(trace, own.start_ns[here], own.end_ns[here])
    if not (found >= 0).any():
        return ""
    seen, first = seen_lines(trace), int(found[found >= 0][0])
    place = place_of(trace, seen.file[first], int(seen.line[first]))
    return ", ".join(filter(None, (cut_name(seen.call[first] or ""), place)))


def _uneven(trace: Trace) -> str:
    chosen = counted_steps(trace)
    dur = chosen.end_ns - chosen.start_ns
    if len(chosen.row) < LEAST_STEPS or dur.mean() <= 0:
        return ""
    spread = float(dur.std() / dur.mean())
    return f"Steps differ by {format_ratio(spread)} (standard deviation)." if spread > LOUD_SPREAD else ""


def _few(trace: Trace) -> str:
    few = _too_few(trace)
    return " ".join(filter(None, (few, more_steps(trace)))) if few else ""


def _too_few(trace: Trace) -> str:
    chosen = counted_steps(trace)
    count = chosen.row
    if trace.steps.height == 0 or len(count) >= LEAST_STEPS:
        return ""
    if len(count) == 1 and not len(chosen.outliers) and new_ops_ratio(trace) >= MOSTLY_NEW:
        return (
            "Only 1 complete step recorded, the first of its kind in this process, so work that is done once may be "
            "part of it. Record it again, or more steps."
        )
    found = f"Only {counted(len(count), 'complete step')} recorded"
    if len(chosen.outliers):
        found = f"Only {counted(len(count), 'typical step')} left"
    return f"{found}, too few to tell how much steps differ."
