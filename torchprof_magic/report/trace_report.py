"""``Report``: an analysed recording as data frames, text, figures, a live view and files."""

from __future__ import annotations

import base64
import json
import uuid
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from torchprof_magic.exporters import Source, choose_exporter
from torchprof_magic.exporters.chrome import write_chrome
from torchprof_magic.exporters.collapsed import METRICS, write_collapsed
from torchprof_magic.exporters.memory_timeline import CURVE_ENDINGS, RAW_ENDING, write_curve, write_raw
from torchprof_magic.exporters.pandas_frames import to_pandas
from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.findings.advice import ADVICE_FIELDS, Advice, Findings, Settings, cards_of, find_advice, plan_trial
from torchprof_magic.findings.advice.leak_holders import RULE as LEAK_RULE
from torchprof_magic.findings.advice.leak_holders import with_holders
from torchprof_magic.findings.compare.change_words import change_line
from torchprof_magic.findings.compare.limits_check import (
    broken_bans,
    broken_baseline,
    broken_peak_limit,
    broken_step_limit,
    broken_table,
)
from torchprof_magic.findings.compare.per_step import RunSample, sample_of, step_durations
from torchprof_magic.findings.compare.run_change import find_change
from torchprof_magic.findings.compare.step_change import typical_ns
from torchprof_magic.findings.savings.table import savings_table
from torchprof_magic.findings.verdict.decision import Verdict, find_verdict
from torchprof_magic.findings.verdict.diagnosis import all_problems
from torchprof_magic.ingest import read_place
from torchprof_magic.model.cycle_filter import of_cycle
from torchprof_magic.model.errors import ProfileAssertionError, StoreError
from torchprof_magic.model.shapes import Facts, Problems, Series, Shape, Table, count_rows
from torchprof_magic.model.trace import SAVED_TRACES_SCHEMA
from torchprof_magic.model.units import counted, format_ns, printable
from torchprof_magic.render.exports import TRACE_EXPORTS
from torchprof_magic.render.figures import FIGURES
from torchprof_magic.render.memory_page import write_memory_page
from torchprof_magic.render.page import ComparedPage, Page, build_page
from torchprof_magic.render.pictures import steps_picture
from torchprof_magic.render.standalone_html import write_html
from torchprof_magic.render.static_html import static_html
from torchprof_magic.render.text import machine_of, steps_sentence, text_summary
from torchprof_magic.render.torch_table import TableOptions, torch_table
from torchprof_magic.report import rules
from torchprof_magic.report.comparison import Comparison
from torchprof_magic.report.sql import run_sql
from torchprof_magic.report.views import VIEWS
from torchprof_magic.runs.known import open_run
from torchprof_magic.runs.other_runs import other_runs
from torchprof_magic.system.files.atomic import target_of, with_memory_for, write_text
from torchprof_magic.system.files.place import place_of
from torchprof_magic.system.files.temporary import written_bytes
from torchprof_magic.tables.devices import devices_table
from torchprof_magic.tables.execution_trace import graph_ops_table, graph_tensors_table, has_graph
from torchprof_magic.tables.host.host_times import host_table
from torchprof_magic.tables.memory.block_table import allocations_table
from torchprof_magic.tables.memory.holders import LeakHolders, holders_table
from torchprof_magic.tables.memory.in_use import memory_frame
from torchprof_magic.tables.memory.leaks import leaks_table
from torchprof_magic.tables.memory.memory_at import memory_at
from torchprof_magic.tables.memory.memory_timeline import category_curve, recorded_changes, timeline_device, timeline_of
from torchprof_magic.tables.memory.starting_level import starting_note
from torchprof_magic.tables.ops.averages import Grouping, averages_in_torchs_order, averages_table, torch_events_table
from torchprof_magic.tables.ops.op_table import ops_by, ops_table
from torchprof_magic.tables.ops.ranking import ranking_table
from torchprof_magic.tables.ops.torch_stack_lines import TORCH_METRICS, torch_stack_lines
from torchprof_magic.tables.process_groups import process_groups_table
from torchprof_magic.tables.snapshot.memory_snapshot import Snapshot
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.source.modules import modules_table
from torchprof_magic.tables.waiting.idle import idle_table
from torchprof_magic.tables.waiting.loaders import loaders_table
from torchprof_magic.tables.waiting.queue import launches_table, queue_series
from torchprof_magic.tables.waiting.waits import waits_table

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.widget import ReportWidget, Shown
    from torchprof_magic.tables.memory.holders import FindHolders

# The view that changes while the report is there.
HOLDERS = "holders"
EXPORTED_TABLES = (
    "ops",
    "kernels",
    "devices",
    "lines",
    "modules",
    "waits",
    "idle",
    "loaders",
    "host",
    "queue",
    "launches",
    "ranking",
    "steps",
    "events",
    "flows",
    "allocations",
    "memory",
    "memory_records",
    "counters",
    "leaks",
    "savings",
    "lanes",
    "stacks",
    "process_groups",
    "metadata",
    "graph_ops",
    "graph_tensors",
    "segments",
    "blocks",
    "history",
)


class Report:
    """An analysed recording. Frames are polars data frames; times are int64 ns, sizes are bytes.

    Everything is computed on first use, and only once.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        trace_paths: tuple[Path, ...] = (),
        run_id: str = "",
        find_holders: FindHolders | None = None,
        find_saved: Callable[[], pl.DataFrame] | None = None,
    ) -> None:
        self.trace = trace
        self._find_holders = find_holders
        self._find_saved = find_saved
        self.run_id = run_id or uuid.uuid4().hex[:12]
        self._trace_paths = trace_paths
        self._held = LeakHolders(trace, find_holders)
        self._finder = _AdviceFinder(trace, self._held)
        self._shapes = _Shapes(trace, self._finder, self._held)
        self._widget: ReportWidget | None = None
        self._view = _View()
        self._comparison: Comparison | None = None
        self._opens_comparison = False
        self._origin_id = self.run_id
        self.change_line = ""

    @property
    def ops(self) -> pl.DataFrame:
        """One row per op or annotation: calls, self and total CPU and device time, memory. See docs/definitions.md."""
        return ops_table(self.trace).frame

    @property
    def kernels(self) -> pl.DataFrame:
        """One row per name of a kernel, memcpy or memset, with its time in ns summed over all streams."""
        return self._table("kernels").frame

    @property
    def devices(self) -> pl.DataFrame:
        """One row per device: busy and idle time, and communication time not overlapped by computation, in ns."""
        return devices_table(self.trace).frame

    @property
    def lines(self) -> pl.DataFrame:
        """One row per line of the cell, and of the functions that were watched, with its times in ns.

        For a trace of another program: one row per function of the user's, if Python frames were recorded. See
        docs/definitions.md.
        """
        return lines_table(self.trace).frame

    @property
    def modules(self) -> pl.DataFrame:
        """One row per nn.Module that ran, by its path of attributes, with the times of forward and backward in ns."""
        return modules_table(self.trace).frame

    @property
    def waits(self) -> pl.DataFrame:
        """One row per blocking call and its cause: how long it held the host, and for how much of that a device worked.

        Times are ns. Only calls within the recorded steps count. See docs/definitions.md for the rules.
        """
        return waits_table(self.trace).frame

    @property
    def idle(self) -> pl.DataFrame:
        """Every idle time of every device in the recorded steps, in ns, by what the host did before the next launch."""
        return idle_table(self.trace).frame

    @property
    def loaders(self) -> pl.DataFrame:
        """One row per kind of DataLoader and line: time in fetching batches in ns, and how often none was ready."""
        return loaders_table(self.trace).frame

    @property
    def host(self) -> pl.DataFrame:
        """One row per name of an op, annotation, Python function or runtime call: its self time on the host in ns.

        Unlike in ``ops``, events of all categories are nested in one another.
        """
        return host_table(self.trace).frame

    @property
    def queue(self) -> pl.DataFrame:
        """How much launched work, and how many launch calls, had not begun on the device, over time, by stream."""
        return queue_series(self.trace).frame

    @property
    def launches(self) -> pl.DataFrame:
        """One row per kernel name: the delay from its launch call to its start in ns, and how many runs are short."""
        return launches_table(self.trace).frame

    @property
    def ranking(self) -> pl.DataFrame:
        """The ops, annotations and Python calls that ran while the launch queue emptied, the most likely cause first.

        The score is that of torch's ``BasicEvaluation``: high idle time and self time, in ns. Empty without a device,
        or if the queue never held at least four kernels.
        """
        return ranking_table(self.trace).frame

    @property
    def steps(self) -> pl.DataFrame:
        """One row per recorded step: start, duration, and time per phase in ns; the phases add up to the duration."""
        return self._table("steps").frame

    @property
    def memory(self) -> pl.DataFrame:
        """The bytes in use on each device after every recorded change, in all and by category, in order of time.

        ``total_bytes`` is the sum of ``parameter_bytes, buffer_bytes, gradient_bytes, optimizer_state_bytes,
        activation_bytes, input_bytes, temporary_bytes, autograd_bytes`` and ``unknown_bytes`` in every row. It includes
        what was alive before the recording, as far as that is known. Times are ns from the first recorded event. Empty
        if memory was not recorded. The records of torch are ``report.trace.memory``. See docs/definitions.md.
        """
        return memory_frame(self.trace)

    def memory_at(self, when: Literal["peak"] | int = "peak", device: str | None = None) -> pl.DataFrame:
        """Return one row per block of memory that is in use at a moment, the largest first.

        ``size_bytes`` adds up to ``total_bytes`` of ``memory``; ``age_ns`` and ``lifetime_ns`` are ns. What was alive
        before the recording and no live object explains is one row named ``before the recording``. See
        docs/definitions.md.

        Args:
            when: ``"peak"``, or a time in ns from the first recorded event.
            device: ``cpu``, or a device such as ``cuda:0``; by default the accelerator with the highest peak, or else
                the CPU.

        Raises ``ValueError`` for a device without recorded memory, or another text than ``"peak"``.
        """
        return memory_at(self.trace, when, device).frame

    @property
    def allocations(self) -> pl.DataFrame:
        """One row per block of memory: its allocation with its release, in the order of allocation.

        Times are ns from the first recorded event; ``allocated_at_ns`` is null for a block from before the recording,
        and ``freed_at_ns`` for one that is alive at its end. With op, module, line, step and category. Empty if memory
        was not recorded. torch's single records are ``report.trace.memory``. See docs/definitions.md.
        """
        return allocations_table(self.trace).frame

    @property
    def leaks(self) -> pl.DataFrame:
        """One row per place whose blocks pile up from step to step, by ``bytes_per_step``, the most first.

        Such blocks are allocated in at least four of five complete steps, and are in use at the end of the recording.
        Empty with fewer than three complete steps. ``holders()`` says who keeps them.
        """
        return leaks_table(self.trace).frame

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
        if rows is None or self._find_holders is None:
            return self._held.look().frame
        return holders_table(self.trace, rows, self._find_holders).frame

    @property
    def savings(self) -> pl.DataFrame:
        """One row per change that would lower the peak of memory by at least 1 %, the largest estimated saving first.

        Activation checkpointing and offload of modules, ``set_to_none``, 16-bit parameters, gradients and optimizer
        state, half the batch, and the release of memory that grows, whose saving is ``bytes_per_step`` more with every
        further step. ``saved_bytes`` is an estimate by ``arithmetic``, and ``added_time_ns`` is the time
        that it adds to a step, in ns. Empty if memory was not recorded. See docs/definitions.md.
        """
        return savings_table(self.trace).frame

    @property
    def snapshot(self) -> Snapshot:
        """The memory snapshot of a ``.pickle`` file, or of a run with ``--snapshot``; its frames are empty without one.

        It has ``devices``, ``pools``, ``segments``, ``blocks``, ``history``, ``annotations`` and ``peak``, and answers
        ``alive(at)``, ``by_line(at)`` and ``flame(at)``.
        """
        return Snapshot(trace=self.trace)

    @property
    def events(self) -> pl.DataFrame:
        """Every recorded event; ``parent`` is the row of the enclosing event, or -1."""
        return self.trace.events

    @property
    def flows(self) -> pl.DataFrame:
        """Links between rows of ``events``: launch call to device event, forward op to backward op."""
        return self.trace.flows

    @property
    def counters(self) -> pl.DataFrame:
        """One row per recorded value of a counter, such as the power of a device, in order of time.

        Times are ns from the first recorded event, values are in ``unit`` as the file writes it. ``device`` is null
        for counters that are about no device. Empty if the file has no counters. See docs/definitions.md.
        """
        return self.trace.counters.drop("cycle")

    @property
    def lanes(self) -> pl.DataFrame:
        """Threads and streams; the ``lane`` of an event is a row of this frame."""
        return self.trace.lanes

    @property
    def stacks(self) -> pl.DataFrame:
        """Python frames with their callers; the ``stack`` of an event is a row of this frame."""
        return self.trace.stacks

    @property
    def process_groups(self) -> pl.DataFrame:
        """One row per process group of the recording process in a distributed job: name, backend, size and ranks."""
        return process_groups_table(self.trace).frame

    @property
    def graph_ops(self) -> pl.DataFrame:
        """One row per call of an op or range in an execution trace, in order; empty for any other file."""
        return graph_ops_table(self.trace).frame

    @property
    def graph_tensors(self) -> pl.DataFrame:
        """One row per tensor in an execution trace, the largest first, in bytes; empty for any other file."""
        return graph_tensors_table(self.trace).frame

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the run that the file holds, including ``--metadata``: strings or JSON by key.

        ``trace_id`` is torch's id of the trace; of several cycles it is ``trace_id of cycle N``.
        """
        return dict(self.trace.meta.extra)

    @property
    def problems(self) -> list[Problem]:
        """Problems of the recording and its file, one per kind, each with its count and what to do about it."""
        return [*all_problems(self.trace), *self._finder.find().problems]

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

    @property
    def verdict(self) -> Verdict:
        """What limits the speed of the program: its kind, name and line, with the numbers behind it and its doubts."""
        return self._verdict

    @property
    def advice(self) -> list[Advice]:
        """What to change, by the time that it saves, the largest first; then by memory, and guesses last.

        ``saving_ns`` is for a step, and savings of one cause count once. What saves less than 1 % of a step is left
        out. ``certainty`` is ``measured``, ``measured here``, ``estimated`` or ``guess``. See docs/advice.md.
        """
        return list(self._finder.find().advice)

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
        return [self._finder.with_holders(one) for one in find_advice(self.trace, rules.settings_of(values)).advice]

    def try_advice(self, number: int, *, seconds: float = 5.0) -> Advice:
        """Measure one piece of ``advice`` on this machine, and return it with what it saves here.

        Both ways run in turns on random numbers of the recorded shapes, as often as the steps called them. In
        ``advice`` the result takes the place of what was said. Random numbers and the number of threads stay as they
        are, and an interrupt ends it. Nothing is tried by itself.

        Args:
            number: Place in ``advice``, from 0.
            seconds: About how long it may take; each way runs at least three times.

        Raises ``IndexError`` for another number, and ``ValueError`` if the advice cannot be tried without your data,
        the shapes were not recorded, or the recording is of a device that this machine lacks.
        """
        # torch is needed to try advice, not to read a trace.
        from torchprof_magic.trials import run_trial  # noqa: PLC0415

        if not seconds > 0:
            raise ValueError(f"seconds must be more than 0 (got {seconds!r})")
        said = self._finder.find().advice[number]
        tried = run_trial(plan_trial(self.trace, said), seconds)
        words = (
            f"Tried here on the recorded shapes: {format_ns(tried.before_ns)} before and {format_ns(tried.after_ns)} "
            f"after, medians of {counted(tried.rounds, 'round')}."
        )
        saving = max(round(tried.before_ns - tried.after_ns), 0)
        found = replace(said, saving_ns=saving, certainty="measured here", evidence=f"{words} {said.evidence}")
        self._finder.replace(said, found)
        self._shapes.forget("overview")
        self.__dict__.pop("_page", None)
        return found

    def ops_by(self, *by: str, stack_n: int = 1) -> pl.DataFrame:
        """Return ``ops`` split by any of ``shapes, dtypes, overload, stack, line, module, thread, phase, step, cycle``.

        A stack is the ``stack_n`` innermost Python frames around the op, rebuilt from the recorded frames. Nested ops
        of the same row count once in the totals. Raises ``ValueError`` for an unknown key.
        """
        return ops_by(self.trace, *by, stack_n=stack_n).frame

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
        return averages_table(self.trace, by).frame

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
        averages = averages_in_torchs_order(self.trace, by)
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
            device=_torch_device(self.trace),
        )
        return torch_table(averages, options)

    @property
    def torch_events(self) -> pl.DataFrame:
        """The events of torch's ``prof.events()``, in its order: by start, and of equal ones the longest first.

        Utility records are left out, and an only child with the name of its parent is merged into it, as in torch.
        Times are ns, sizes are bytes; the columns are those of ``key_averages``.
        """
        return torch_events_table(self.trace)

    def summary(self, format: Literal["text", "json"] = "text") -> str:  # noqa: A002 - the name that users expect
        """Return a summary as one screen of text, or the same facts as JSON."""
        if format == "json":
            return self._json_summary()
        if format != "text":
            raise ValueError(f"summary format must be 'text' or 'json' (got {format!r})")
        steps, ops, memory = self._table("steps"), self._table("ops"), self._shape("memory")
        assert isinstance(memory, Series)
        machine = machine_of(self.trace)
        cards = cards_of(self.trace, self.advice)
        note = partial(starting_note, self.trace)
        return text_summary(self.trace.meta, self.verdict, ops, steps, memory, self.problems, machine, cards, note)

    def figure(self, view: str = "ops") -> Figure:
        """Return a matplotlib figure of ``steps``, ``ops``, ``flame`` or ``memory``.

        Raises ``ValueError`` for an unknown name, or when the view is empty.
        """
        if view not in FIGURES:
            raise ValueError(f"no figure of {view!r}; choose from {', '.join(FIGURES)}")
        shape = self._shape(view)
        if count_rows(shape) == 0:
            raise ValueError(next(known.empty for known in VIEWS if known.name == view))
        return FIGURES[view](shape)

    def compare(self, other: Report) -> Comparison:
        """Return what changed from another run, such as an earlier one of the same cell, to this one.

        ``other`` is ``before`` and this report is ``after`` in all frames, so the kind is ``faster`` if this run is
        faster than the other.

        Raises ``TypeError`` for anything but a report.
        """
        if not isinstance(other, Report):
            raise TypeError(f"compare() takes a report, such as load(path) returns (got {type(other).__name__})")
        return Comparison(before=other, after=self)

    def assert_profile(
        self,
        *,
        step_ms: float | None = None,
        max_peak: float | str | None = None,
        no: Sequence[str] = (),
        against: Report | str | os.PathLike[str] | None = None,
        tolerance: float = 0.0,
    ) -> None:
        """Raise ``ProfileAssertionError``, an ``AssertionError``, with a table of the limits that this run breaks.

        A limit that cannot be checked, because there are no steps or no memory, is broken.

        Args:
            step_ms: The longest typical step in ms: the lower quartile of the complete steps.
            max_peak: The highest peak of memory on any device, in bytes or as ``"2 GB"``; memory must be recorded.
            no: Names of ops and ranges that must not run, such as ``aten::item``.
            against: A run, or the file of one that ``save`` wrote, than which this one must not be slower.
            tolerance: By how much it may be slower: 0.05 for 5 %. A difference that may be chance is no failure; see
                docs/comparing.md.

        Raises ``ValueError`` for an invalid limit, and ``IngestError`` for a file that cannot be read.
        """
        __tracebackhide__ = True
        if step_ms is not None and not step_ms > 0:
            raise ValueError(f"step_ms must be more than 0 (got {step_ms!r})")
        if not tolerance >= 0:
            raise ValueError(f"tolerance must be at least 0 (got {tolerance!r})")
        broken = broken_step_limit(self.trace, step_ms) if step_ms is not None else []
        broken += broken_peak_limit(self.trace, max_peak) if max_peak is not None else []
        broken += broken_bans(self.trace, (no,) if isinstance(no, str) else no)
        if against is not None:
            baseline = against if isinstance(against, Report) else Report(read_place(place_of(against)))
            broken += broken_baseline(self.compare(baseline).change, tolerance)
        if broken:
            raise ProfileAssertionError(broken_table(broken))

    @property
    def step_ns(self) -> float:
        """The typical complete step in ns: the lower quartile, which a busy machine changes least; else nan."""
        return typical_ns(step_durations(self.trace))

    def sample(self) -> RunSample:
        """Return what is needed to compare the steps with those of a later run when this report is gone."""
        return sample_of(self.trace)

    def compare_with_sample(self, earlier: RunSample) -> None:
        """Say in ``change_line``, and in the header, how the steps changed since an earlier run."""
        self.change_line = change_line(find_change(earlier, self.sample()))

    def with_comparison(self, comparison: Comparison, *, is_first: bool = False) -> Report:
        """Return a report of the same recording with the tab Compare, which is opened first if ``is_first``."""
        report = Report(self.trace, **self._sources)
        report._shapes, report.change_line = self._shapes, comparison.line
        report._comparison, report._opens_comparison = comparison, is_first
        report._origin_id = self._origin_id
        return report

    @classmethod
    def _compared_in_page(cls, parts: _Parts, key: str, is_swapped: bool) -> Shown:
        """Return what the page shows with the run ``key``, or the run that it has for no key; see ``Comparing``."""
        other = open_run(key) if key else parts.other
        if other is None:
            raise StoreError("This report is not compared with a run yet.")
        if not (other.events.height and parts.trace.events.height):
            raise StoreError("One of the two runs has no events, so there is nothing to compare.")
        report = cls(parts.trace, run_id=parts.run_id, **parts.sources)
        before, after = (report, cls(other)) if is_swapped else (cls(other), report)
        report._shapes, report._origin_id, report.change_line = parts.shapes, parts.origin_id, parts.change_line
        report._comparison, report._opens_comparison = Comparison(before, after), True
        report._view = parts.view() or report._view
        report._view.shown = report.shown_below("")
        return report._view.shown

    @property
    def _parts(self) -> _Parts:
        return _Parts(
            trace=self.trace,
            shapes=self._shapes,
            run_id=self.run_id,
            origin_id=self._origin_id,
            other=self._comparison.other_than(self.trace) if self._comparison is not None else None,
            change_line=self.change_line,
            view=weakref.ref(self._view),
            sources=self._sources,
        )

    @property
    def _sources(self) -> dict[str, Any]:
        """The arguments of this report besides its recording."""
        return {
            "trace_paths": self._trace_paths,
            "find_holders": self._find_holders,
            "find_saved": self._find_saved,
        }

    def to_html(self, path: str | os.PathLike[str], *, perfetto: bool = False) -> Path:
        """Write a self-contained interactive HTML file, which opens without a network, and return its path.

        In the process that recorded, it names what holds memory that grows: as ``holders()`` or the page last found
        it, or as found now if that is quick.

        The file makes no network request: its own policy forbids all of them, and runs no script but the report's.

        Args:
            path: Where to write.
            perfetto: Also put the trace into the file, and offer to open it in Perfetto. That opens
                https://ui.perfetto.dev in a new window, only when its entry in the export menu is chosen; without
                this, the file neither holds the trace nor can open a window. Perfetto reads the trace in the browser.

        Raises ``ExportError`` when the file cannot be written; an existing file is then unchanged.
        """
        with with_memory_for(target := target_of(path)):
            write = partial(_write_html, self.trace, self._shapes, self._verdict, self.run_id, target)
            return write(has_trace=perfetto, change_line=self.change_line, compared=self._compared)

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
        exporter, frame = choose_exporter(target, format), self._frame_of(table)
        if metric not in METRICS:
            raise ValueError(f"unknown metric {metric!r}; choose from {', '.join(METRICS)}")
        source = Source(trace=self.trace, table=frame, write_html=self.to_html, metric=metric, is_safe=safe)
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
            return write_collapsed(self.trace, target_of(path), "self_cpu_time" if is_host else "self_device_time")
        with with_memory_for(target := target_of(path)):
            return write_text(target, (f"{line}\n" for line in torch_stack_lines(self.trace, metric)))

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
        target, chosen = target_of(path), timeline_device(self.trace, device)
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

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all data of the recording to one compact file, which ``load`` opens, and return its path."""
        with with_memory_for(target := target_of(path)):
            return write_saved(self.trace, target)

    def to_pandas(self, table: str | pl.DataFrame = "ops") -> pd.DataFrame:
        """Return a table as a data frame of pandas, which must be installed; pyarrow is not needed.

        Numbers keep their types; integers and booleans with missing values become ``Int64`` and ``boolean``, and texts
        that repeat are categories.

        Args:
            table: Any table of ``sql``, or a frame of this report, such as the result of ``ops_by`` or ``sql``.

        Raises ``ValueError`` for an unknown table, and ``ImportError`` without pandas.
        """
        return to_pandas(self._frame_of(table)() if isinstance(table, str) else table)

    def sql(self, query: str) -> pl.DataFrame:
        """Return the result of a SQL query over the frames of the report.

        The tables are events, ops, kernels, devices, lines, modules, waits, idle, loaders, host, queue, launches,
        ranking, steps, flows, allocations, memory, memory_records (``report.trace.memory``), counters, leaks, savings,
        lanes, stacks, process_groups, metadata (key and value), of an execution trace graph_ops and graph_tensors, and
        of a memory snapshot segments, blocks and history.
        Events, lanes, stacks and segments have a column ``row`` with their row number, to which ``parent``, ``lane``,
        ``stack``, ``source``, ``target``, ``event`` and ``segment`` refer. Raises ``ValueError`` with the tables and
        columns when the query is invalid.
        """
        return run_sql(query, self._frames())

    @property
    def widget(self) -> ReportWidget:
        """The live view, an anywidget; the same object until it is closed."""
        # anywidget is needed to show a report, not to compute one.
        from torchprof_magic.render.widget import ReportWidget  # noqa: PLC0415

        if self._widget is None or self._widget.is_closed:
            self._view.shown = self.shown_below("")
            self._widget = ReportWidget(self._view.shown)
        return self._widget

    def shown_below(self, parent: str) -> Shown:
        """Return the data of a live view that leads back to the page called ``parent``; for reports of many ranks."""
        from torchprof_magic.render.widget import Comparing, Shown  # noqa: PLC0415 - as above

        frame_bytes = self.trace.events.estimated_size() + self.trace.memory.estimated_size()
        chrome = partial(write_chrome, self.trace)
        writers = {
            "html": partial(
                _write_html,
                self.trace,
                self._shapes,
                self._verdict,
                self.run_id,
                change_line=self.change_line,
                compared=self._compared,
            ),
            "chrome": chrome,
            "perfetto": chrome,
        }
        page = (
            build_page(self.trace, VIEWS, self._shapes, self._verdict, self.run_id, parent=parent)
            if parent
            else self._page
        )
        # Nothing that is shown holds this report, so that its memory is free as soon as the user drops it.
        compare = partial(Report._compared_in_page, self._parts)
        comparing = Comparing(partial(_runs_beside, self._origin_id), compare) if not parent else None
        title = self.trace.meta.title
        return Shown(page, title=title, frame_bytes=int(frame_bytes), writers=writers, comparing=comparing)

    def _shape(self, name: str) -> Shape:
        """Return the shape of one view, computed once; raises ``KeyError`` for an unknown view."""
        return self._shapes[name]

    @cached_property
    def _page(self) -> Page:
        """The data of the live view: header, embedded columns, and columns to pull."""
        live = {} if self._find_holders is None else {HOLDERS: self._held.look}
        return build_page(
            self.trace,
            VIEWS,
            self._shapes,
            self._verdict,
            self.run_id,
            live=live,
            can_compare=not has_graph(self.trace),
            change_line=self.change_line,
            compared=self._compared,
        )

    @cached_property
    def _compared(self) -> ComparedPage | None:
        """What the page says of the run that this one is compared with, if any."""
        if self._comparison is None:
            return None
        return self._comparison.page(shown=self.trace, is_first=self._opens_comparison)

    @cached_property
    def _verdict(self) -> Verdict:
        return find_verdict(self.trace)

    def _table(self, name: str) -> Table:
        table = self._shape(name)
        assert isinstance(table, Table)
        return table

    def _frame_of(self, table: str) -> Callable[[], pl.DataFrame]:
        """Return the function that computes a table; raises ``ValueError`` for an unknown name."""
        if table not in EXPORTED_TABLES:
            raise ValueError(f"unknown table {table!r}; choose from {', '.join(EXPORTED_TABLES)}")
        return self._frames()[table]

    def _frames(self) -> dict[str, Callable[[], pl.DataFrame]]:
        """A function per frame that computes it, by name."""
        return {
            "events": lambda: self.events,
            "ops": lambda: self.ops,
            "kernels": lambda: self.kernels,
            "lines": lambda: self.lines,
            "modules": lambda: self.modules,
            "waits": lambda: self.waits,
            "idle": lambda: self.idle,
            "loaders": lambda: self.loaders,
            "host": lambda: self.host,
            "queue": lambda: self.queue,
            "launches": lambda: self.launches,
            "ranking": lambda: self.ranking,
            "steps": lambda: self.steps,
            "flows": lambda: self.flows,
            "allocations": lambda: self.allocations,
            "memory": lambda: self.memory,
            "memory_records": lambda: self.trace.memory,
            "counters": lambda: self.counters,
            "leaks": lambda: self.leaks.drop("addresses"),
            "savings": lambda: self.savings,
            "lanes": lambda: self.lanes,
            "stacks": lambda: self.stacks,
            "devices": lambda: self.devices,
            "process_groups": lambda: self.process_groups,
            "graph_ops": lambda: self.graph_ops,
            "graph_tensors": lambda: self.graph_tensors,
            "metadata": lambda: pl.DataFrame(
                list(self.trace.meta.extra), schema={"key": pl.String, "value": pl.String}, orient="row"
            ),
            "segments": lambda: self.snapshot.segments,
            "blocks": lambda: self.snapshot.blocks,
            "history": lambda: self.snapshot.history,
        }

    def _json_summary(self) -> str:
        overview = self._shape("overview")
        assert isinstance(overview, Facts)
        facts = [
            {
                "section": section.title,
                "label": fact.label,
                "value": fact.value,
                "unit": fact.unit,
                "note": fact.note,
            }
            for section in overview.sections
            for fact in section.facts
        ]
        ops = self.ops.head(20).to_dicts()
        problems = [{"code": p.code, "severity": p.severity, "count": p.count} for p in self.problems]
        found = self.verdict
        verdict = {
            "kind": found.kind,
            "title": found.title,
            "text": "".join(span.text for span in found.text),
            "name": found.name,
            "file": found.file,
            "line": found.line,
            "share": found.share,
            "certainty": found.certainty,
            "doubts": found.doubts,
            "causes": {cause.kind: cause.ns for cause in found.causes},
        }
        advice = [{name: getattr(each, name) for name in ADVICE_FIELDS} for each in self.advice]
        found_all = {"verdict": verdict, "advice": advice, "facts": facts, "ops": ops, "problems": problems}
        return json.dumps(found_all, default=str)

    def _repr_html_(self) -> str:
        return static_html(self.trace, self._shapes, self._verdict, self.run_id)

    def _repr_png_(self) -> bytes | None:
        """Return the steps under the verdict as an image; None without steps."""
        steps = self._table("steps")
        if steps.frame.height == 0:
            return None
        return steps_picture(steps, f"{self.verdict.title}: {steps_sentence(self.trace.meta, self.trace.steps)}")

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the static copy as text, HTML and an image, for front ends without widgets.

        Only the types in ``include`` that are not in ``exclude`` are made.
        """
        forms = {"text/plain": self.summary, "text/html": self._repr_html_, "image/png": self._png_text}
        wanted = [kind for kind in forms if (include is None or kind in include) and kind not in (exclude or ())]
        made = {kind: forms[kind]() for kind in wanted}
        return {kind: text for kind, text in made.items() if text}

    def _png_text(self) -> str:
        """Return the image in Base64, as messages of Jupyter hold it; empty without steps."""
        return base64.b64encode(self._repr_png_() or b"").decode("ascii")

    def _ipython_display_(self) -> None:
        """Show the report as the last line of a cell, as the magic does; works without ``%load_ext``."""
        from torchprof_magic.render.display import show_here  # noqa: PLC0415 - IPython calls this, so it is installed

        show_here(self)

    def _display_(self) -> object:
        """Return what marimo shows when the report is the last line of a cell."""
        return self.widget

    def __repr__(self) -> str:
        meta = self.trace.meta
        events, steps = counted(self.trace.events.height, "event"), counted(self.trace.steps.height, "step")
        return printable(f"<Report {meta.title}: {events}, {steps}>")


class _AdviceFinder:
    """Finds the advice on a trace, by the settings of the moment, and keeps what was measured for some of it."""

    def __init__(self, trace: Trace, held: LeakHolders) -> None:
        self._trace = trace
        self._held = held
        self._tried: dict[Advice, Advice] = {}
        self._found: tuple[Settings, Findings] | None = None

    def find(self) -> Findings:
        """Return the advice and the rules that failed; they are asked again only when the settings have changed."""
        settings = rules.current()
        if self._found is None or self._found[0] is not settings:
            found = find_advice(self._trace, settings, self._tried)
            self._found = (settings, found._replace(advice=tuple(map(self.with_holders, found.advice))))
        return self._found[1]

    def with_holders(self, advice: Advice) -> Advice:
        """Return the advice with what is known of who keeps memory that grows, for the rule that is about it."""
        held = self._held.known() if advice.rule == LEAK_RULE else None
        return advice if held is None else with_holders(advice, held.frame)

    def replace(self, said: Advice, measured: Advice) -> None:
        """Put what was measured in the place of what was said."""
        self._tried[said] = measured
        self._found = None

    def complete(self, shape: Shape) -> Shape:
        """Return the overview with what to change, and the notes with the rules that failed."""
        match shape:
            case Facts():
                return replace(shape, cards=cards_of(self._trace, self.find().advice))
            case Problems():
                return replace(shape, problems=(*shape.problems, *self.find().problems))
            case _:
                return shape


class _Shapes(Mapping[str, "Shape"]):
    """The shapes of all views by name, each computed when it is first asked for."""

    def __init__(self, trace: Trace, finder: _AdviceFinder, held: LeakHolders) -> None:
        self._trace = trace
        self._finder = finder
        self._held = held
        self._computed: dict[str, Shape] = {}

    def __getitem__(self, name: str) -> Shape:
        if name == HOLDERS and (held := self._held.known()) is not None:
            return held
        if name not in self._computed:
            build = {view.name: view.build for view in VIEWS}[name]
            self._computed[name] = self._finder.complete(build(self._trace))
        return self._computed[name]

    def forget(self, name: str) -> None:
        """Compute a shape again when it is asked for next."""
        self._computed.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return (view.name for view in VIEWS)

    def __len__(self) -> int:
        return len(VIEWS)


class _View:
    """What the live view of a report shows, for as long as the report is there."""

    shown: Shown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a report is made of: ``other`` is the run that it is compared with, ``origin_id`` that of its recording."""

    trace: Trace
    shapes: _Shapes
    run_id: str
    origin_id: str
    other: Trace | None
    change_line: str
    view: weakref.ref[_View]
    sources: dict[str, Any]


def _runs_beside(run_id: str) -> list[dict[str, str]]:
    return [run._asdict() for run in other_runs(run_id)]


def _torch_device(trace: Trace) -> str:
    """Return what torch's table calls the device: the type of those with memory, or else CUDA, which ROCm is too."""
    types = {name.partition(":")[0] for name in trace.memory["device"].unique()} - {"cpu", "device", "hip"}
    return min(types, default="cuda").upper()


def _write_html(
    trace: Trace,
    shapes: Mapping[str, Shape],
    verdict: Verdict,
    run_id: str,
    path: Path,
    *,
    has_trace: bool = False,
    change_line: str = "",
    compared: ComparedPage | None = None,
) -> Path:
    held = shapes[HOLDERS]
    exports = TRACE_EXPORTS if has_trace else ()
    page = build_page(
        trace,
        VIEWS,
        shapes,
        verdict,
        run_id,
        is_standalone=True,
        exports=exports,
        live={HOLDERS: lambda: held} if count_rows(held) else {},
        change_line=change_line,
        compared=compared,
    )
    packed = written_bytes(partial(write_chrome, trace), "trace.json.gz") if has_trace else b""
    static = static_html(trace, shapes, verdict, run_id, in_notebook=False)
    return write_html(page, path, title=trace.meta.title, static=static, packed_trace=packed)
