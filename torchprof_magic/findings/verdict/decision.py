"""The verdict: what would have to vanish for a step to be shorter, with its evidence and what makes it doubtful."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.busy import unknown_device_work
from torchprof_magic.facts.device.coverage import launches_of, loss_of
from torchprof_magic.facts.device.unrecorded import signs_of_device
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import is_named, once_per_trace
from torchprof_magic.findings.verdict.accounts import Account, Cause, device_account, host_account
from torchprof_magic.findings.verdict.by_path import path_shares
from torchprof_magic.findings.verdict.diagnosis import words_of_signs
from torchprof_magic.findings.verdict.doubts import find_doubts, is_incomplete, without_one_time
from torchprof_magic.findings.verdict.once import CAPTURE, OneTime, one_time_within, one_time_work
from torchprof_magic.findings.verdict.words import (
    DEVICE_WORDS,
    HIDDEN_ON_HOST,
    HIDDEN_WORDS,
    HOST_TITLES,
    HOST_WORDS,
    TITLES,
    Span,
    as_shown,
    at_top_op,
    at_top_operation,
    cause_line_words,
    cut_name,
    line_words,
    named,
    no_limit_words,
    others_words,
    recording_words,
    title_of_work,
    whole_words,
    with_place,
)
from torchprof_magic.model.rows import keys_of
from torchprof_magic.model.trace import STEP_PATTERN
from torchprof_magic.model.units import counted, format_ns, format_ratio, printable
from torchprof_magic.tables.execution_trace import has_graph
from torchprof_magic.tables.memory.in_use import memory_peaks, memory_series
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from torchprof_magic.findings.verdict.by_path import PathShares
    from torchprof_magic.model.trace import Trace

Kind = Literal[
    "data",
    "communication",
    "waiting",
    "dispatch",
    "python",
    "compile",
    "initialisation",
    "compute",
    "memory_traffic",
    "optimizer",
    "none",
]
# From this share on, what a device or the ops themselves do is the limit, whatever else a step waits for.
MOSTLY_WORK = 0.6
# A device that works, communicates or has work queued for so much of the steps hardly idles.
NEARLY_ALL_WORK = 0.9
# Below it, the largest other cause is, if it has at least this share.
LEAST_CAUSE = 0.25
# Nothing is called the limit below this share.
LEAST_LIMIT = 0.2
# From this share of all recorded steps on, a recording is one of compilation, whichever steps count.
NEARLY_ALL = 0.8
# Every cause is named from this share on.
LEAST_SECOND = 0.1
_HOW_TO_RECORD = "Record the activity of the device as well (--activities cpu,cuda) to see what limits the program."
# What the reader did with work of the device that has no time.
_LOST_EVENTS = ("chrome.zero_time", "chrome.stray_time")
# Steps without any op have a verdict from this time on; below, nothing happened.
LEAST_WITHOUT_OPS_NS = 1_000_000
# On the host alone: Python from this share on, and the optimizer.
LOUD_PYTHON = 0.4
LOUD_OPTIMIZER = 0.35
# If most of the ops' time is in calls of less than 20 us, it goes to calling them.
MOSTLY = 0.5
# Where a line of Python is known, short ops are not worth a word below this share of both.
FEW_SHORT = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What limits the program.

    Attributes:
        kind: One of data, communication, waiting, dispatch, python, compile, initialisation, compute, memory_traffic,
            optimizer, none; compute wherever a device is busy with kernels, whatever limits these.
        title: The same for people. Of a busy device it says Compute-bound or Memory-bound where that limits more than
            half of the time of its kernels, and else Device-bound: what limits it is not known.
        text: A few sentences of evidence, in pieces.
        where: A clause with the user's line, empty if it is not known.
        name: The op, call, range or kernel with the most of it, empty if none is known.
        file: File of the user's line with the most of it, empty if it is not known.
        line: Number of that line.
        share: Its share of the time of the steps that count, between 0 and 1.
        whole_ns: Those steps' time together, which all shares refer to.
        causes: Everything that the steps spend time on, the largest first; adds up to ``whole_ns``.
        second: The next cause that is known, if it has at least a tenth.
        doubts: What makes the verdict doubtful, the gravest first.
        is_incomplete: Whether work is missing in the steps that count.
        certainty: sure without doubts, likely with one; not sure with more, or if work is missing.
    """

    kind: Kind
    title: str
    text: tuple[Span, ...]
    where: tuple[Span, ...] = ()
    name: str = ""
    file: str = ""
    line: int | None = None
    share: float = 0.0
    whole_ns: int = 0
    causes: tuple[Cause, ...] = ()
    second: Cause | None = None
    doubts: tuple[str, ...] = ()
    is_incomplete: bool = False

    @property
    def certainty(self) -> Literal["sure", "likely", "not sure"]:
        """How sure it is."""
        return ("sure", "likely", "not sure")[2 if self.is_incomplete else min(len(self.doubts), 2)]

    @property
    def statement(self) -> str:
        """The title and the evidence with the line, without the doubts, as one line of text."""
        return printable(f"{self.title}. {''.join(span.text for span in with_place(self.text, self.where))}")

    def __str__(self) -> str:
        return " ".join((self.statement, *map(printable, self.doubts[:1])))


@once_per_trace
def find_verdict(trace: Trace) -> Verdict:
    """Return what limits the recorded steps, or what was not recorded to tell.

    Complete steps count, but for those of more than 1.5 times the median, so that one outlier never decides. Only if
    nearly all of the recording is compilation, this is the verdict, with what limits the other steps after it.
    """
    found = _with_compilation(trace, _limit(trace))
    found = replace(found, text=tuple(as_shown(trace, span) for span in found.text))
    if found.kind in ("compile", "initialisation"):
        return replace(found, doubts=without_one_time(trace, found.doubts))
    return found


def _with_compilation(trace: Trace, found: Verdict) -> Verdict:
    """Return the verdict, or that nearly all of the steps is compilation if that is in steps that do not count."""
    steps = trace.steps.filter("complete")
    start_ns, end_ns = (steps[name].to_numpy() for name in ("start_ns", "end_ns"))
    if found.kind in ("compile", "initialisation") or steps.height == len(counted_steps(trace).row):
        return found
    once = one_time_within(trace, start_ns, end_ns)
    if once.ratio < NEARLY_ALL or once.what != CAPTURE:
        return found
    longest = steps["number"][int((end_ns - start_ns).argmax())]
    usual = format_ns(counted_steps(trace).whole_ns / counted_steps(trace).steps)
    return replace(
        found,
        kind="compile",
        title=TITLES["compile"],
        text=(
            Span(text="Compilation or graph capture takes "),
            Span(text=f"{format_ns(once.ns)} of {format_ns(int((end_ns - start_ns).sum()))}", style="strong"),
            Span(text=f" that were recorded ({format_ratio(once.ratio)}), most of it in step {longest}, mostly in "),
            Span(text=cut_name(once.name), style="code", name=once.name),
            Span(text=f". Record later steps. The others take {usual} each. {found.title}: "),
            *found.text,
        ),
        where=line_words(trace, once.file, once.line),
        name=once.name,
        file=once.file,
        line=once.line,
        share=once.ratio,
    )


def _limit(trace: Trace) -> Verdict:
    """Return what limits the steps that count, or what was not recorded to tell."""
    if (signs := signs_of_device(trace)) is not None:
        lost = next((each.message for each in trace.problems if each.code in _LOST_EVENTS), "")
        return _say(
            "GPU not recorded",
            f"No kernel, copy or fill is in the file, although {words_of_signs(signs)}. {lost or _HOW_TO_RECORD}",
        )
    has_ops = not is_named(trace, STEP_PATTERN)[op_rows(trace).row].all()
    needs_ops = counted_steps(trace).whole_ns < LEAST_WITHOUT_OPS_NS
    if trace.has_device:
        needs_ops = not _replays_graphs(trace)  # which runs no op
    if not has_ops and needs_ops:
        return _nothing(trace)
    on_device = device_account(trace)
    if on_device is not None:
        return _on_device(trace, on_device)
    if unknown := unknown_device_work(trace):
        return _say("Unknown device", unknown)
    if trace.steps.height == 0:
        return _without_steps(trace)
    return _on_host(trace, host_account(trace))


def _replays_graphs(trace: Trace) -> bool:
    """Return whether most launches of the recording are those of graphs, and most of them have their work."""
    launches = launches_of(trace)
    ran, counts = launches.is_graph & (launches.events > 0), launches.counts
    return bool(2 * int((launches.is_graph & counts).sum()) > int(counts.sum()) < 2 * int(ran.sum()))


def _nothing(trace: Trace) -> Verdict:
    if has_graph(trace):
        return _say("Execution trace", "It holds the calls of ops and their tensors, but no times.")
    lost = [problem.message for problem in trace.problems if problem.severity == "data_loss"]
    if lost:
        return _say("Nothing recorded", lost[0])
    if trace.has_device:
        return _only_on_device(trace)
    if trace.events.filter(~pl.col("name").cast(pl.String).str.contains(STEP_PATTERN)).height:
        return _say("No ops", "No torch op was recorded on the profiled threads.")
    if peaks := memory_peaks(memory_series(trace)):
        found = ", ".join(f"{mark.label} on {mark.lane}" for mark in peaks)
        return _say("Memory only", f"No ops were recorded, only allocations: {found}.")
    return _say("Nothing recorded", "No torch op ran during the recording.")


def _only_on_device(trace: Trace) -> Verdict:
    if loss_of(trace).missing:
        told = (
            "Work of the device is missing in the file, so that what limits the program is not known. Record it again."
        )
        return replace(_say("Not known", told), doubts=find_doubts(trace))
    told = "Kernels were recorded, but no ops. Record the cpu activity too, to see which ops launched them."
    return _say("Only device work", told)


def _say(title: str, text: str) -> Verdict:
    return Verdict(kind="none", title=title, text=(Span(text=text),))


# What the host does itself, and what it may wait for.
_HOST_CAUSES = ("op dispatch", "python")
_RIVALS = ("data", "communication")
# The causes in which a device works.
_DEVICE_WORK = ("compute", "memory_traffic")
# What the causes of an account are called in a verdict.
_DEVICE_KINDS: dict[str, Kind] = {
    "compute": "compute",
    "memory_traffic": "memory_traffic",
    "communication": "communication",
    "data": "data",
    "waiting": "waiting",
    "allocation": "waiting",
    "compile": "compile",
    "initialisation": "initialisation",
    "op dispatch": "dispatch",
    "python": "python",
    "idle": "waiting",
}
_HOST_KINDS: dict[str, Kind] = {
    "data": "data",
    "communication": "communication",
    "waiting": "waiting",
    "idle": "waiting",
    "compile": "compile",
    "initialisation": "initialisation",
    "python": "python",
}


def _on_device(trace: Trace, account: Account) -> Verdict:
    """Decide for a run with a device, by what the device does and what it waits for."""
    works, queued = account.share("compute", "memory_traffic"), account.share("queued")
    causes = account.causes
    outside = {name: causes[name] for name in _DEVICE_KINDS if name in causes and name not in _DEVICE_WORK}
    shares = _shares_of_path(trace, account)
    worst = _largest(outside, account, shares)
    is_at_work = works + queued >= MOSTLY_WORK and works >= LEAST_CAUSE
    has_rival = worst.ns >= LEAST_CAUSE * account.whole_ns
    # A device that works beside a host which never waits for it decides nothing.
    is_beside = shares is not None and shares.device < LEAST_CAUSE and has_rival
    if not is_beside and (is_at_work or (not has_rival and works >= LEAST_CAUSE)):
        is_moving = causes["memory_traffic"].ns > causes["compute"].ns
        cause = causes["memory_traffic" if is_moving else "compute"]
    else:
        cause = worst
    if (unclear := _unclear(trace, account, cause)) is not None:
        return unclear
    kind = _DEVICE_KINDS[cause.kind]
    if kind == "compute" and account.optimizer_ns >= MOSTLY * causes["compute"].ns > 0:
        kind = "optimizer"
    if cause.kind in _DEVICE_WORK:
        cause = at_top_operation(trace, cause)
    words = DEVICE_WORDS[cause.kind](trace, account, cause)
    title = title_of_work(trace) if kind == "compute" else ""
    return _told(trace, kind, account, cause, words, title=title)


def _shares_of_path(trace: Trace, account: Account) -> PathShares | None:
    """Return the shares of the critical path, if it decides: a device that never idles does, where steps end earlier.

    Its queue is then full, and calls of the host take until there is room in it.
    """
    is_full = account.share("compute", "memory_traffic", "queued", "communication") >= NEARLY_ALL_WORK
    return None if is_full else path_shares(trace)


def _largest(outside: dict[str, Cause], account: Account, shares: PathShares | None) -> Cause:
    """Return the largest cause outside of the device's work.

    On the critical path the host is one, whether it calls ops or runs Python. Where data or communication takes about
    as much as the host, the path decides between both.
    """
    worst = max(outside.values(), key=lambda cause: cause.ns)
    host = max((outside[name] for name in _HOST_CAUSES if name in outside), key=lambda cause: cause.ns)
    rival = max((outside[name] for name in _RIVALS if name in outside), key=lambda cause: cause.ns)
    if shares is None or worst.kind not in (*_HOST_CAUSES, *_RIVALS):
        return worst
    lead_ns = sum(outside[name].ns for name in _HOST_CAUSES if name in outside) - rival.ns
    if abs(lead_ns) >= LEAST_SECOND * account.whole_ns:
        return host if lead_ns > 0 else rival
    return host if shares.host >= getattr(shares, rival.kind) else rival


def _unclear(trace: Trace, account: Account, cause: Cause) -> Verdict | None:
    """Return that no cause is the limit: the file does not tell what fills the time, or many causes share it."""
    words_of = HIDDEN_ON_HOST if account.device is None else HIDDEN_WORDS
    hidden = {name: account.causes[name] for name in words_of if name in account.causes}
    most = max(hidden.values(), key=lambda each: each.ns, default=None)
    if most is not None and most.ns >= max(cause.ns, LEAST_CAUSE * account.whole_ns):
        words: tuple[Span, ...] = words_of[most.kind](trace, account, most)
        return _told(trace, "none", account, most, words, title="Not known")
    if account.device is None or cause.ns >= LEAST_LIMIT * account.whole_ns:
        return None
    return _told(trace, "none", account, cause, no_limit_words(account), title="No single limit")


def _on_host(trace: Trace, account: Account) -> Verdict:
    """Decide for a run without a device, by the phases of its steps."""
    causes = account.causes
    works = account.share("forward", "backward", "optimizer")
    if (paused := _partly_paused(trace, account)) is not None:
        return paused
    others = [causes[name] for name in _HOST_KINDS if name != "python" and name in causes]
    worst = max(others, key=lambda cause: cause.ns)
    is_python = account.share("python") > LOUD_PYTHON and causes["python"].ns >= worst.ns
    cause: Cause
    kind: Kind
    driven = account.overhead
    if driven is not None and _is_driven(account, driven) and driven.ns >= worst.ns:
        cause, kind = _driven(driven, account)
    elif works < MOSTLY_WORK and is_python:
        cause, kind = causes["python"], "python"
    elif works < MOSTLY_WORK and worst.ns >= LEAST_CAUSE * account.whole_ns:
        cause, kind = worst, _HOST_KINDS[worst.kind]
    else:
        cause, kind = _work_on_host(account)
    if (unclear := _unclear(trace, account, cause)) is not None:
        return unclear
    if kind == "compute":
        cause = at_top_op(trace, cause)
    words = HOST_WORDS[kind](trace, account, cause)
    return _told(trace, kind, account, cause, words)


def _is_driven(account: Account, driven: Cause) -> bool:
    """Return whether driving short ops takes more of the steps than anything that ops compute."""
    works = sum(account.causes[name].ns for name in _WORK) - account.tiny_ns
    if account.optimizer_ns >= MOSTLY * account.whole_ns:
        return False  # whose ops are short too, as a rule
    return account.tiny_ns > 0 and driven.ns >= MOSTLY * account.whole_ns and driven.ns > works


def _driven(driven: Cause, account: Account) -> tuple[Cause, Kind]:
    """Return what takes more of it, and its name: the short ops, or the Python between them."""
    python = account.causes["python"]
    if account.tiny_ns >= python.ns:
        return driven, "dispatch"
    if python.file and account.tiny_ns < FEW_SHORT * driven.ns:
        return python, "python"
    # The line is that of all that is driven, and not of what Python calls.
    return replace(driven, name=python.name, name_ns=0, between=python.between), "python"


def _work_on_host(account: Account) -> tuple[Cause, Kind]:
    """Return what the ops of a step spend their time on."""
    causes = account.causes
    forward, backward, optimizer = (causes[name] for name in ("forward", "backward", "optimizer"))
    largest = max(forward, backward, key=lambda cause: cause.ns)
    ops_ns = forward.ns + backward.ns + optimizer.ns
    if optimizer.ns > LOUD_OPTIMIZER * account.whole_ns and optimizer.ns >= largest.ns:
        return optimizer, "optimizer"
    ops = replace(largest, kind="compute", ns=ops_ns)
    if account.tiny_ns >= MOSTLY * ops_ns > 0:
        return ops, "dispatch"
    if account.moving_ns >= MOSTLY * ops_ns > 0:
        return ops, "memory_traffic"
    return ops, "compute"


def _partly_paused(trace: Trace, account: Account) -> Verdict | None:
    """Return that the recording was paused, if Python would be the limit only because of that."""
    steps = set(keys_of(trace.steps[counted_steps(trace).row.tolist()]))
    paused_ns = sum(m.paused_ns for m in trace.meta.recorded_steps if (m.cycle, m.number) in steps)
    other, whole = account.causes["python"].ns, account.whole_ns
    if not paused_ns or other <= LOUD_PYTHON * whole or other - paused_ns > LOUD_PYTHON * (whole - paused_ns):
        return None
    mean, step = format_ns(paused_ns / account.steps), format_ns(whole / account.steps)
    return Verdict(
        kind="none",
        title="Partly paused",
        text=(
            Span(text="No op runs for "),
            Span(text=f"{format_ns(other / account.steps)} of {step}", style="strong"),
            Span(text=f" per step: the recording was paused for {mean} of it. Record without paused() to see what "),
            Span(text="limits it."),
        ),
    )


def _told(
    trace: Trace, kind: Kind, account: Account, cause: Cause, words: tuple[Span, ...], *, title: str = ""
) -> Verdict:
    """Return the verdict with the place of its cause, the second cause, and the doubts."""
    is_on_device = account.device is not None
    ranked = tuple(sorted((c for c in account.causes.values() if c.ns), key=lambda c: (-c.ns, c.kind)))
    own = {cause.kind} if is_on_device or kind not in ("compute", "dispatch", "memory_traffic") else set(_WORK)
    if cause.kind == "overhead":
        own |= {"python", *_WORK}
    least_ns = LEAST_SECOND * account.whole_ns
    others = tuple(c for c in ranked if c.kind not in own | {"queued", "profiler"} and c.ns >= least_ns)
    second = next((c for c in others if c.kind not in ("unknown", "missing")), None)
    around = () if is_on_device else recording_words(trace)
    doubts = find_doubts(trace)
    return Verdict(
        kind=kind,
        title=title or (TITLES if is_on_device else HOST_TITLES)[kind],
        text=(*words, *others_words(others, account), *whole_words(account), *around),
        where=cause_line_words(trace, cause),
        name=cause.name,
        file=cause.file,
        line=cause.line,
        share=cause.ns / max(account.whole_ns, 1),
        whole_ns=account.whole_ns,
        causes=ranked,
        second=second,
        doubts=doubts,
        is_incomplete=is_incomplete(trace),
    )


_WORK = ("forward", "backward", "optimizer")


def _without_steps(trace: Trace) -> Verdict:
    """Return what is done once, if that is most of it, or the op with the most time: for the host without steps."""
    once = one_time_work(trace)
    if once.ratio >= MOSTLY:
        return _mostly_once(trace, once)
    ops = ops_table(trace).frame
    total = float(ops["self_cpu_ns"].sum() or 1)
    # The self time of an annotation is Python or waiting, so it is named only if there is nothing else.
    own = ops.filter(pl.col("kind") == "cpu_op")
    ops = own if own.height and float(own["self_cpu_ns"].sum() or 0) > 0 else ops
    top = ops.sort("self_cpu_ns", descending=True).row(0, named=True)
    share = top["self_cpu_ns"] / total
    others = ops.filter((pl.col("name") != top["name"]) & (pl.col("self_cpu_ns") > 0))
    names = others.sort("self_cpu_ns", descending=True)["name"].head(2).to_list()
    calls = f" ({format_ns(top['self_cpu_ns'])} in {counted(top['calls'], 'call')})"
    return Verdict(
        kind="compute",
        title="Bound by CPU ops",
        text=(
            named(top["name"]),
            Span(text=" takes "),
            Span(text=f"{format_ratio(share)} of the self CPU time", style="strong"),
            Span(text=calls),
            *(span for i, name in enumerate(names) for span in (Span(text=(", then ", " and ")[i]), named(name))),
            Span(text="."),
        ),
        name=top["name"],
        share=share,
        whole_ns=int(total),
        doubts=find_doubts(trace),
    )


def _mostly_once(trace: Trace, once: OneTime) -> Verdict:
    """Return that most of a recording without steps is work that is done once."""
    kind: Kind = "compile" if once.what.startswith("compilation") else "initialisation"
    whole_ns = counted_steps(trace).whole_ns
    return Verdict(
        kind=kind,
        title=TITLES[kind],
        text=(
            Span(text="Initialisation takes "),
            Span(text=f"{format_ns(once.ns)} of {format_ns(whole_ns)}", style="strong"),
            Span(text=f" ({format_ratio(once.ratio)}): {once.what}, mostly in "),
            Span(text=cut_name(once.name), style="code", name=once.name),
            Span(text="."),
        ),
        where=line_words(trace, once.file, once.line),
        name=once.name,
        file=once.file,
        line=once.line,
        share=once.ratio,
        whole_ns=whole_ns,
        doubts=find_doubts(trace),
    )
