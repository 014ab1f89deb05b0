"""``Report``: an analysed recording as data frames, text, figures, a live view and files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import polars as pl

from torchprof_magic.exporters import Source, choose_exporter
from torchprof_magic.exporters.collapsed import METRICS, write_collapsed
from torchprof_magic.exporters.memory_timeline import CURVE_ENDINGS, RAW_ENDING, write_curve, write_raw
from torchprof_magic.exporters.redaction import redacted
from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.facts.counted_steps import counted_part, step_ns_of, with_chosen_steps
from torchprof_magic.facts.source.fused_titles import with_fused_titles
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.findings.advice import find_advice
from torchprof_magic.findings.compare.change_words import change_line
from torchprof_magic.findings.compare.limits_check import (
    ENOUGH_STEPS,
    broken_table,
    check_bans,
    check_higher_peak,
    check_peak,
    check_slower,
    check_step,
    ns_of,
    share_of,
)
from torchprof_magic.findings.compare.per_step import sample_of
from torchprof_magic.findings.compare.run_change import find_change
from torchprof_magic.findings.what_if import Changes, as_several, ask_what_if
from torchprof_magic.model.cycle_filter import of_cycle
from torchprof_magic.model.errors import ProfileAssertionError
from torchprof_magic.model.shapes import count_rows
from torchprof_magic.model.trace import SAVED_TRACES_SCHEMA, Trace
from torchprof_magic.model.units import counted, printable
from torchprof_magic.render.check_forms import LimitsCheck
from torchprof_magic.render.displayed import Displayed
from torchprof_magic.render.figures import FIGURES
from torchprof_magic.render.memory_page import write_memory_page
from torchprof_magic.render.torch_table import TableOptions, torch_table
from torchprof_magic.report import rules
from torchprof_magic.report.analysis import Analysis
from torchprof_magic.report.comparison import Comparison
from torchprof_magic.report.part import ReportPart
from torchprof_magic.report.tables import HasTables, Tables, with_tables
from torchprof_magic.report.trace_forms import TraceForms, new_id
from torchprof_magic.report.trying import SECONDS, measured_advice
from torchprof_magic.report.views import TABLES, TABS
from torchprof_magic.runs.known import named_trace
from torchprof_magic.system.files.atomic import target_of, with_memory_for, write_text
from torchprof_magic.tables.memory.holders import holders_table
from torchprof_magic.tables.memory.memory_at import memory_at
from torchprof_magic.tables.memory.memory_timeline import category_curve, recorded_changes, timeline_device, timeline_of
from torchprof_magic.tables.ops.averages import Grouping, averages_in_torchs_order, averages_table, torch_events_table
from torchprof_magic.tables.ops.op_table import ops_by
from torchprof_magic.tables.ops.torch_stack_lines import TORCH_METRICS, torch_stack_lines
from torchprof_magic.tables.snapshot.memory_snapshot import Snapshot

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from torchprof_magic.findings.advice import Advice
    from torchprof_magic.findings.compare.per_step import RunSample
    from torchprof_magic.findings.verdict.decision import Verdict
    from torchprof_magic.findings.what_if import WhatIf
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.render.page import Page
    from torchprof_magic.render.widget import Shown
    from torchprof_magic.tables.memory.holders import FindHolders


@with_tables(TABLES)
class Report(HasTables[Trace], Displayed[TraceForms]):
    """An analysed recording. Frames are polars data frames; times are int64 ns, sizes are bytes.

    Everything is computed on first use, and only once. ``trace`` is the recording as it is in the file. What cannot be
    true in it, such as a kernel before its launch, is a problem; tables and findings are of the recording as far as it
    can be believed, and those of ``as_recorded()`` of the file as it is.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        trace_paths: tuple[Path, ...] = (),
        run_id: str = "",
        find_holders: FindHolders | None = None,
        find_saved: Callable[[], pl.DataFrame] | None = None,
        forms: TraceForms | None = None,
    ) -> None:
        """Make the report of a recording; ``forms`` are those of another report of it, with what that one knows."""
        super().__init__()
        self.trace = trace
        self._trace_paths = trace_paths
        self._find_saved = find_saved
        self._forms = forms or TraceForms(Analysis(trace, find_holders), run_id or new_id())
        self._analysis = self._forms.analysis
        self._believed = self._analysis.trace
        self._tables = Tables(TABLES, self._believed)

    @property
    def run_id(self) -> str:
        """The id of the run, which its static copy and its live view share."""
        return self._forms.run_id

    @property
    def change_line(self) -> str:
        """How the steps changed since an earlier run of the cell; empty for the first."""
        return self._forms.change_line

    def memory_at(self, when: Literal["peak"] | int = "peak", device: str | None = None) -> pl.DataFrame:
        """Return one row per block of memory that is in use at a moment, the largest first.

        ``size_bytes`` adds up to ``total_bytes`` of ``memory``; ``age_ns`` and ``lifetime_ns`` are ns. ``name``,
        ``shape`` and ``module`` say what the program calls a tensor, as far as a live run knows it. What was alive
        before the recording and has no name is last, as ``before the recording``. See docs/definitions.md.

        Args:
            when: ``"peak"``, or a time in ns from the first recorded event.
            device: ``cpu``, or a device such as ``cuda:0``; by default the accelerator with the highest peak, or else
                the CPU.

        Raises ``ValueError`` for a device without recorded memory, or another text than ``"peak"``.
        """
        return memory_at(self._believed, when, device).frame

    def holders(self, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return what holds blocks of memory now, the most bytes first: ``losses[…]`` or ``model.cache['x']``.

        One row per variable or attribute, with numbers of elements left out. ``way`` is ``tensor`` if a tensor there
        uses the block itself, and ``graph`` if the graph of autograd behind it does. Rows may overlap: a block that two
        variables hold counts in both. Looks through all objects of the process, so it takes from a tenth of a second
        to some seconds, and finds nothing that only C++ code holds.

        Args:
            rows: Rows of ``leaks``, ``allocations`` or ``memory_at()``, whose addresses are looked for; by default
                all of ``leaks``.

        Raises ``ValueError`` if this process did not make the recording: only there are its objects.
        """
        find = self._analysis.find_holders
        if rows is None or find is None:
            return self._analysis.held.look().frame
        return holders_table(self._believed, rows, find).frame

    @property
    def snapshot(self) -> Snapshot:
        """The memory snapshot of a ``.pickle`` file, or of a run with ``--snapshot``; its frames are empty without one.

        It has ``devices``, ``pools``, ``segments``, ``blocks``, ``history``, ``annotations`` and ``peak``, and answers
        ``alive(at)``, ``by_line(at)`` and ``flame(at)``.
        """
        return Snapshot(trace=self.trace)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the run that the file holds, including ``--metadata``: strings or JSON by key.

        ``trace_id`` is torch's id of the trace; of several cycles it is ``trace_id of cycle N``.
        """
        return dict(self.trace.meta.extra)

    @property
    def problems(self) -> list[Problem]:
        """Problems of the recording and its file, one per kind, each with its count and what to do about it."""
        return self._analysis.problems

    @property
    def trace_paths(self) -> tuple[Path, ...]:
        """The raw trace files, one per cycle. Those of a live run are deleted with the report."""
        return self._trace_paths

    @property
    def saved_traces(self) -> pl.DataFrame:
        """One row per trace that this run kept in ``trace_dir``, in the order in which they were written.

        With ``path``, ``timestamp`` (UTC, when the cycle ended), the last ``step`` and the ``cycle``, ``rank``,
        ``size_bytes``, its ``state`` now (``kept``, ``uploading``, ``deleted``, ``changed`` or ``missing``), the URL
        ``remote``, the state of the upload (``waiting``, ``uploading``, ``retrying``, ``done``, ``failed``, or
        ``not queued`` if it was refused) and its last error. Empty without ``trace_dir``, and for a report of a file.
        """
        return pl.DataFrame(schema=SAVED_TRACES_SCHEMA) if self._find_saved is None else self._find_saved()

    @property
    def cycles(self) -> list[int]:
        """The numbers of the recording cycles, from 0; more than one with ``--repeat``."""
        return sorted(self.trace.events["cycle"].unique().to_list())

    def cycle(self, number: int) -> Report:
        """Return a report of a single recording cycle; raises ``ValueError`` for an unknown number."""
        if number not in self.cycles:
            raise ValueError(
                f"no cycle {number}; the recorded cycles are: {', '.join(map(str, self.cycles)) or 'none'}"
            )
        trace = of_cycle(self.trace, number)
        title = f"{trace.meta.title}, cycle {number}".removeprefix(", ")
        return Report(replace(trace, meta=replace(trace.meta, title=title)))

    def as_recorded(self) -> Report:
        """Return a report in which all times, and all steps, are as they are in the file."""
        forms = TraceForms(Analysis(self.trace, self._analysis.find_holders, is_corrected=False))
        return Report(self.trace, trace_paths=self._trace_paths, find_saved=self._find_saved, forms=forms)

    @property
    def as_analysed(self) -> Trace:
        """The recording as far as it can be believed, which the tables and findings are of."""
        return self._believed

    def between(self, start_ns: int, end_ns: int) -> ReportPart:
        """Return the tables of a part of the time, such as a step: ``report.between(start_ns, end_ns).waits``.

        Times are cut at the edges, so parts that follow one another add up to the whole; a call counts in each part
        that has any of it. What belongs to what, such as a kernel to its op, is found in the whole recording.

        Args:
            start_ns: Time from the first recorded event, in ns, as in ``steps``.
            end_ns: The part ends just before this time.

        Raises ``ValueError`` if it ends before it begins.
        """
        if end_ns < start_ns:
            raise ValueError(f"end_ns must be at least start_ns (got {start_ns} and {end_ns})")
        return ReportPart(self._believed, TimeRange(start_ns, end_ns))

    @property
    def counted(self) -> ReportPart:
        """The tables of the steps that count, as the page shows them: ``report.counted.ops``.

        Sums divided by the number of these steps, whose ``left_out`` in ``report.steps`` is empty, are what the page
        and the text give per step.
        """
        return ReportPart(self._believed, counted_part(self._believed))

    def counting(self, *numbers: int) -> Report:
        """Return a report of the same recording in which these steps count, by their numbers, and no others.

        Everything that is given per step follows: the verdict, the advice, the tables of the page, the text. Raises
        ``ValueError`` for a step that was not recorded, and without any.
        """
        rows = {number: row for row, number in enumerate(self.trace.steps["number"].to_list())}
        if unknown := [number for number in numbers if number not in rows]:
            raise ValueError(f"no step {unknown[0]} was recorded")
        if not numbers:
            raise ValueError("at least one step must count")
        chosen = with_chosen_steps(self._believed, [rows[number] for number in set(numbers)]).meta.chosen_steps
        trace = replace(self.trace, meta=replace(self.trace.meta, chosen_steps=chosen))
        return Report(trace, trace_paths=self._trace_paths, find_saved=self._find_saved)

    @property
    def verdict(self) -> Verdict:
        """What limits the speed of the program: its kind, name and line, with the numbers behind it and its doubts."""
        return self._analysis.verdict

    @property
    def advice(self) -> list[Advice]:
        """What to change, in the order of carrying it out: what saves most time first, then memory, and guesses last.

        ``saving_ns`` is for a step, after what stands before it; ``alone_ns`` is without that. Savings of one cause
        count once. What saves less than 1 % of a step is left out. ``certainty`` is ``measured``, ``measured here``,
        ``estimated`` or ``guess``. See docs/advice.md.
        """
        return list(self._analysis.findings.advice)

    def advice_with(
        self,
        *,
        mute: Iterable[str] | None = None,
        threshold: float | None = None,
        thresholds: Mapping[str, float] | None = None,
    ) -> list[Advice]:
        """Return the advice with other settings than those of ``%config TorchProfMagics.advice``.

        Args:
            mute: Names of rules that are not asked.
            threshold: Least share of a step that advice must save, between 0 and 1.
            thresholds: The same for single rules, by name.

        Raises ``OptionsError`` for an unknown rule, or a share that is none.
        """
        given = {"mute": mute, "threshold": threshold, "thresholds": thresholds}
        values = {key: value for key, value in given.items() if value is not None}
        return [
            self._analysis.with_holders(one) for one in find_advice(self._believed, rules.settings_of(values)).advice
        ]

    def try_advice(self, which: int | str | Advice, *, seconds: float = SECONDS) -> Advice:
        """Measure one piece of ``advice`` on this machine, and return it with what it saves here.

        Both ways run in turns on random numbers of the recorded shapes, as often as the steps called them. In
        ``advice`` the result takes the place of what was said. Random numbers and the number of threads stay as they
        are, and an interrupt ends it. Nothing is tried by itself.

        Args:
            which: Number of its card, as the page and ``summary()`` show it, from 1; or its rule, its title, or the
                advice itself.
            seconds: About how long it may take; each way runs at least three times.

        Raises ``IndexError``, which lists what there is, if there is no such advice, and ``ValueError`` if it cannot be
        tried without your data, the shapes were not recorded, or the recording is of a device that this machine lacks.
        """
        if not seconds > 0:
            raise ValueError(f"seconds must be more than 0 (got {seconds!r})")
        found = measured_advice(self._analysis, which, seconds)
        self._forms = replace(self._forms)  # its page is made again
        return found

    def what_if(
        self,
        *,
        faster: Mapping[str | int | tuple[int, int], float] | None = None,
        without: str | int | tuple[int, int] | Iterable[str | int | tuple[int, int]] | None = None,
        no_sync: bool = False,
        graphs: bool = False,
        workers: int | None = None,
        overlap: Literal["communication"] | None = None,
        batch: float | None = None,
        threads: int | None = None,
    ) -> WhatIf:
        """Return what a step would take if something were faster or gone, and what would limit it then.

        What is meant is the name of an op, a range, a Python function or a call, with all inside and the device work
        that it launched; a kernel; what the host waited for, such as ``time.sleep``; the path of a module or
        ``file:line``, with their backward; the number of a line of the cell; a phase, such as ``data``; a device such
        as ``cuda:0``, ``device`` for all, or ``cpu``; or a pair of times in ns. docs/what_if.md says what the answer
        rests on, and how often such answers came true.

        Args:
            faster: How many times as fast what would be: ``{"aten::mm": 2}``.
            without: What would be gone, one or several; ops with their backward.
            no_sync: No call would wait for a device.
            graphs: Work of devices would be launched as graphs, with one launch in a step.
            workers: So many worker processes would load the data, which the program loads itself.
            overlap: ``"communication"`` would run beside all other work.
            batch: A batch would be so many times as large; the step is that of the larger batch.
            threads: Ops on the CPU would use so many threads.

        Raises ``OptionsError``, which is a ``ValueError``, for what is not in the recording, or no change.
        """
        changes = Changes(
            faster={} if faster is None else faster,
            without=as_several(without),
            no_sync=no_sync,
            graphs=graphs,
            workers=workers,
            overlap=overlap,
            batch=batch,
            threads=threads,
        )
        return ask_what_if(self._believed, changes)

    def ops_by(self, *by: str, stack_n: int = 1) -> pl.DataFrame:
        """Return ``ops`` split by any of ``shapes, dtypes, overload, stack, line, module, thread, phase, step, cycle``.

        A stack is the ``stack_n`` innermost Python frames around the op, rebuilt from the recorded frames. Nested ops
        of the same row count once in the totals. Raises ``ValueError`` for an unknown key.
        """
        return ops_by(self._believed, *by, stack_n=stack_n).frame

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> pl.DataFrame:
        """Return calls, self and total CPU and device time and memory by torch's definitions, as torch's method does.

        Unlike in ``ops``, recursive calls count at every level, device work and ranges on a device have rows, and all
        steps are the row ``ProfilerStep*``. Times are ns, sizes are bytes.

        Args:
            group_by_input_shape: A row for each combination of input shapes.
            group_by_stack_n: A row for each stack of so many innermost frames. As in torch, this has an effect only in
                recordings with stacks and ``_ExperimentalConfig(verbose=True)``; ``ops_by("stack", stack_n=...)`` works
                in all that have stacks.
            group_by_overload_name: A row for each overload, such as ``Tensor`` of ``aten::add``. As in torch, this has
                an effect only in recordings with ``--overloads``.
            include_python_functions: Rows for Python functions, in recordings with stacks. By default they are there if
                the installed torch counts them, which versions before 2.15 do.
        """
        by = Grouping(group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions)
        return averages_table(self._believed, by).frame

    def key_averages_table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: Literal["s", "ms", "us"] | None = None,
        *,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> str:
        """Return ``key_averages()`` as the text of torch's ``prof.key_averages().table()``.

        Args:
            sort_by: One of torch's keys, such as ``cpu_time_total``, ``self_cuda_time_total``, ``cpu_memory_usage`` or
                ``count``, the largest first; by default rows are in the order of their first calls.
            row_limit: The most rows to show; all with -1.
            max_src_column_width: Characters of a source location, of which the end is shown; all with ``None``.
            max_name_column_width: Characters of a name; all with ``None``.
            max_shapes_column_width: Characters of the input shapes; all with ``None``.
            header: A line above the table.
            top_level_events_only: Leave out what first ran inside something else, such as every op in a step.
            time_unit: The unit of all times; by default each has the one that fits.
            group_by_input_shape: As in ``key_averages``.
            group_by_stack_n: As in ``key_averages``.
            group_by_overload_name: As in ``key_averages``.
            include_python_functions: As in ``key_averages``.

        FLOPs are shown for recordings with ``with_flops``; docs/definitions.md says which of them torch counts
        otherwise. Raises ``ValueError`` for an unknown ``sort_by``.
        """
        by = Grouping(group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions)
        averages = averages_in_torchs_order(self._believed, by)
        if not self.trace.meta.has_flops:
            averages = averages.drop("flops", strict=False)
        options = TableOptions(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            device=_torch_device(self._believed),
        )
        return torch_table(averages, options)

    @property
    def torch_events(self) -> pl.DataFrame:
        """The events of torch's ``prof.events()``, in its order: by start, and of equal ones the longest first.

        Utility records are left out, and an only child with the name of its parent is merged into it, as in torch.
        Times are ns, sizes are bytes; the columns are those of ``key_averages``.
        """
        return torch_events_table(self._believed)

    def figure(self, view: str = "ops") -> Figure:
        """Return a matplotlib figure of ``steps``, ``ops``, ``flame``, ``memory`` or ``roofline``.

        Raises ``ValueError`` for an unknown name, or when the view is empty.
        """
        if view not in FIGURES:
            raise ValueError(f"no figure of {view!r}; choose from {', '.join(FIGURES)}")
        shape = self._analysis[view]
        if count_rows(shape) == 0:
            raise ValueError(next(known.empty for known in TABS if known.name == view))
        return FIGURES[view](with_fused_titles(self.trace, shape))

    def compare(self, other: Report) -> Comparison:
        """Return what changed from another run, such as an earlier one of the same cell, to this one.

        ``other`` is ``before`` and this report is ``after`` in all frames, so the kind is ``faster`` if this run is
        faster than the other.

        Raises ``TypeError`` for anything but a report.
        """
        if not isinstance(other, Report):
            raise TypeError(f"compare() takes a report, such as load(path) returns (got {type(other).__name__})")
        return Comparison(other.as_analysed, self._believed, self._forms)

    def check(
        self,
        *,
        max_step: float | str | None = None,
        max_peak: float | str | None = None,
        no: Sequence[str] = (),
        against: Report | str | os.PathLike[str] | None = None,
    ) -> LimitsCheck:
        """Return whether this run keeps to limits: ``passed``, ``failed``, or ``unclear`` where that may be chance.

        A limit that cannot be checked, because there are no steps or no memory, is broken.

        Args:
            max_step: The longest typical step: in ms, as ``"50 ms"``, or as ``"+5%"`` of that of ``against``. The
                typical step is the mean of those that count, see ``report.steps``; docs/comparing.md says when a
                difference is more than chance.
            max_peak: The highest peak of memory on any device: in bytes, as ``"2 GB"``, or as ``"+10%"`` of that of
                ``against``. Memory must be recorded.
            no: Names of ops and ranges that must not run, such as ``aten::item``, and kinds of calls that must not
                block the host in the steps that count: ``sync``, ``alloc``, ``init``, ``copy``, ``slow launch`` and
                ``queue full``, as in ``report.waits``.
            against: A run, the file of one, or the name of a kept one. Without ``max_step``, the steps must
                not be slower than its steps by more than chance.

        Raises ``ValueError`` for an invalid limit, and ``IngestError`` for a file that cannot be read.
        """
        __tracebackhide__ = True
        base = against if against is None or isinstance(against, Report) else Report(named_trace(against))
        more_step, more_peak = share_of(max_step), share_of(max_peak)
        if base is None and (more_step, more_peak) != (None, None):
            raise ValueError("a limit such as '+5%' needs a run to compare with: against=")
        compared = self.compare(base) if base is not None and (max_step is None or more_step is not None) else None
        rows = check_step(self._believed, ns_of(max_step)) if max_step is not None and more_step is None else []
        rows += check_slower(compared.change, more_step) if compared is not None else []
        if base is not None and more_peak is not None:
            rows += check_higher_peak(base.as_analysed, self._believed, more_peak)
        elif max_peak is not None:
            rows += check_peak(self._believed, max_peak)
        rows += check_bans(self._believed, (no,) if isinstance(no, str) else no)
        note = (compared.words[0], *compared.warnings) if compared is not None else ()
        return LimitsCheck(title=self.trace.meta.title or "this run", rows=tuple(rows), note=note)

    def assert_profile(
        self,
        *,
        step_ms: float | None = None,
        max_step: float | str | None = None,
        max_peak: float | str | None = None,
        no: Sequence[str] = (),
        against: Report | str | os.PathLike[str] | None = None,
        tolerance: float = 0.0,
    ) -> None:
        """Raise ``ProfileAssertionError``, an ``AssertionError``, with a table of the limits that this run breaks.

        A difference that may be chance breaks none; fewer than four steps in a run to compare with do.

        Args:
            step_ms: The longest typical step in ms, beside a ``max_step`` that is a share of another run.
            max_step: As for ``check``.
            max_peak: As for ``check``.
            no: As for ``check``.
            against: As for ``check``.
            tolerance: By how much the steps may be slower than those of ``against``: 0.05 is ``max_step="+5%"``.

        Raises ``ValueError`` for an invalid limit, and ``IngestError`` for a file that cannot be read.
        """
        __tracebackhide__ = True
        if step_ms is not None and not step_ms > 0:
            raise ValueError(f"step_ms must be more than 0 (got {step_ms!r})")
        if not tolerance >= 0:
            raise ValueError(f"tolerance must be at least 0 (got {tolerance!r})")
        if max_step is None and against is not None:
            max_step = f"+{100 * tolerance:.6f}%"
        rows = check_step(self._believed, step_ms * 1e6) if step_ms is not None else []
        rows += self.check(max_step=max_step, max_peak=max_peak, no=no, against=against).rows
        broken = [row for row in rows if row.status == "failed" or row.limit == ENOUGH_STEPS]
        if broken:
            raise ProfileAssertionError(broken_table(broken))

    @property
    def step_ns(self) -> float:
        """The typical step in ns: the mean of those that count, see ``report.steps``; nan if none is complete."""
        return step_ns_of(self._believed)

    def sample(self) -> RunSample:
        """Return what is needed to compare the steps with those of a later run when this report is gone."""
        return sample_of(self._believed)

    def compare_with_sample(self, earlier: RunSample) -> None:
        """Say in ``change_line``, and in the header, how the steps changed since an earlier run."""
        self._forms = replace(self._forms, change_line=change_line(find_change(earlier, self.sample())))

    def with_comparison(self, comparison: Comparison) -> Report:
        """Return a report of the same recording whose page has the tab Compare."""
        forms = self._forms.with_changes(comparison)
        return Report(self.trace, trace_paths=self._trace_paths, find_saved=self._find_saved, forms=forms)

    def early_page(self) -> Page:
        """Return the data of a page that asks its kernel for nothing, as while the recorded loop still runs."""
        return self._forms.early_page()

    def shown_below(self, parent: str) -> Shown:
        """Return the data of a live view that leads back to the page called ``parent``; for reports of many ranks."""
        return self._forms.shown_below(parent)

    def to_html(self, path: str | os.PathLike[str], *, perfetto: bool = False, redact: bool = False) -> Path:
        """Write a self-contained interactive HTML file, which opens without a network, and return its path.

        In the process that recorded, it names what holds memory that grows: as ``holders()`` or the page last found
        it, or as found now if that is quick.

        The file makes no network request: its own policy forbids all of them, and runs no script but the report's.

        Args:
            path: Where to write.
            perfetto: Also put the trace into the file, and offer to open it in Perfetto. That opens
                https://ui.perfetto.dev in a new window, only when its entry in the export menu is chosen; without
                this, the file neither holds the trace nor can open a window. Perfetto reads the trace in the browser.
            redact: Leave out what tells of the machine and the program, as ``redacted()`` does.

        Raises ``ExportError`` when the file cannot be written; an existing file is then unchanged.
        """
        if redact:
            return self.redacted().to_html(path, perfetto=perfetto)
        with with_memory_for(target := target_of(path)):
            return self._forms.write_html(target, has_trace=perfetto)

    def to_pandas(self, table: str | pl.DataFrame = "ops") -> pd.DataFrame:
        """Return a table as a data frame of pandas, which must be installed; pyarrow is not needed.

        Numbers keep their types; integers and booleans with missing values become ``Int64`` and ``boolean``, and texts
        that repeat are categories.

        Args:
            table: Any table of ``sql``, or a frame of this report, such as the result of ``ops_by`` or ``sql``.

        Raises ``ValueError`` for an unknown table, and ``ImportError`` without pandas.
        """
        return self._tables.to_pandas(table)

    def export(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002 - the name that users expect
        *,
        metric: str = "self_cpu_time",
        table: str = "ops",
        safe: bool = True,
    ) -> Path:
        """Write the report for another program, and return the path of the file.

        Args:
            path: Where to write. Its ending chooses the format: ``.json`` or ``.json.gz`` for Perfetto,
                ``.speedscope.json``, ``.collapsed``, ``.csv``, ``.html``, ``.torchprof``. docs/formats.md lists all.
            format: Name of the format, to override the ending: ``chrome``, ``speedscope``, ``collapsed``,
                ``csv``, ``html`` or ``torchprof``.
            metric: For ``collapsed``: ``self_cpu_time`` or ``self_device_time``.
            table: For ``csv``: the table to write; any table of ``sql``.
            safe: For ``csv``: put an apostrophe in front of text that a spreadsheet would run as a formula.

        Raises ``ValueError`` for an unknown format, metric or table, and ``ExportError`` when the file cannot be
        written; an existing file is then unchanged.
        """
        target = target_of(path)
        exporter = choose_exporter(target, format)
        self._tables.check(table)
        if metric not in METRICS:
            raise ValueError(f"unknown metric {metric!r}; choose from {', '.join(METRICS)}")
        source = Source(
            trace=self.trace,
            table=partial(self._tables.flat, table),
            write_html=self.to_html,
            metric=metric,
            is_safe=safe,
        )
        with with_memory_for(target):
            return exporter.write(source, target)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total", *, with_ops: bool = False
    ) -> Path:
        """Write the file of torch's method of this name, line by line, and return its path.

        A line has the Python frames around an event, its callers first, and the event's own time in whole µs. torch
        writes stacks only in recordings with ``_ExperimentalConfig(verbose=True)``; this does so in all with stacks.

        Args:
            path: Where to write.
            metric: ``self_cpu_time_total``, or ``self_device_time_total``, which torch calls ``self_cuda_time_total``,
                ``self_xpu_time_total`` or ``self_privateuse1_time_total``: the device work that the event launched.
            with_ops: Write one line per distinct stack instead, with ops and ranges in the stacks, as ``export`` to
                ``.collapsed`` does.

        Raises ``ValueError`` for another metric, and ``ExportError`` when the file cannot be written; an existing file
        is then unchanged.
        """
        if metric not in TORCH_METRICS:
            raise ValueError(f"unknown metric {metric!r}; choose from {', '.join(TORCH_METRICS)}")
        if with_ops:
            is_host = TORCH_METRICS[metric] == "self_cpu_ns"
            return write_collapsed(self._believed, target_of(path), "self_cpu_time" if is_host else "self_device_time")
        with with_memory_for(target := target_of(path)):
            return write_text(target, (f"{line}\n" for line in torch_stack_lines(self._believed, metric)))

    def export_memory_timeline(self, path: str | os.PathLike[str], device: str | None = None) -> Path:
        """Write the memory of a device over time in the formats of torch's method of this name, and return the path.

        Args:
            path: Where to write. ``.json`` and ``.json.gz`` hold ``[times, sizes]``: Unix times in µs, and for each
                nine numbers, a 0 and the bytes of each category in torch's order. ``.raw.json.gz`` holds ``[time,
                action, bytes, category]`` for everything that is created and destroyed: Unix time in ns, or -1 for
                what was there before, and torch's numbers. ``.html`` is a page with a picture, and with the numbers.
            device: Such as ``cuda:0`` or ``cpu``; by default the first accelerator, or else the CPU.

        ``load`` opens all of them. Raises ``ValueError`` for another ending, or if no memory of the device was
        recorded, and ``ExportError`` when the file cannot be written; an existing file is then unchanged.
        """
        target, chosen = target_of(path), timeline_device(self._believed, device)
        name = target.name.lower()
        if not name.endswith((*CURVE_ENDINGS, ".html")):
            raise ValueError(f"{target.name!r} must end in {', '.join((*CURVE_ENDINGS, RAW_ENDING))} or .html")
        timeline = timeline_of(recorded_changes(self.trace, chosen), chosen, self.trace.meta.start_unix_ns)
        if name.endswith(RAW_ENDING):
            return write_raw((timeline.time_ns, timeline.action, timeline.size_bytes, timeline.category), target)
        times_us, sizes = category_curve(timeline)
        if name.endswith(".html"):
            return write_memory_page(times_us, sizes, target, device=chosen, title=self.trace.meta.title)
        return write_curve(times_us, sizes, target)

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> Path:
        """Write all data of the recording to one compact file, which ``load`` opens, and return its path.

        ``redact`` leaves out what tells of the machine and the program, as ``redacted()`` does.
        """
        with with_memory_for(target := target_of(path)):
            return write_saved(redacted(self.trace) if redact else self.trace, target)

    def redacted(self) -> Report:
        """Return a report for others, without what tells of the machine and the program.

        Paths lose their folders (``folder1/train.py``), but for those inside of installed packages. The source text of
        the cell and of lines, names of users and hosts, addresses, and metadata about folders, commands and the
        environment are left out. Names of ops, modules, functions and files, sizes and times stay. What was left out
        is counted in ``problems``, as ``run.redacted``.
        """
        return Report(redacted(self.trace))

    def __repr__(self) -> str:
        meta = self.trace.meta
        events, steps = counted(self.trace.events.height, "event"), counted(self.trace.steps.height, "step")
        return printable(f"<Report {meta.title}: {events}, {steps}>")


def _torch_device(trace: Trace) -> str:
    """Return what torch's table calls the device: the type of those with memory, or else CUDA, which ROCm is too."""
    types = {name.partition(":")[0] for name in trace.memory["device"].unique()} - {"cpu", "device", "hip"}
    return min(types, default="cuda").upper()
