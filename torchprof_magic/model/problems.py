"""Every problem that a report can show, in one table: what happened, what to do about it, and when it occurs.

The text of a problem is a ``str.format`` template. To add a problem, add one entry to ``PROBLEMS`` and report it with
``problem(code, ...)``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torchprof_magic.model.meta import Problem, Severity


class Kind(NamedTuple):
    """One entry of the table. ``message`` and ``fix`` are shown to the user; ``when`` is for the documentation."""

    severity: Severity
    message: str
    fix: str
    when: str


def problem(code: str, *, count: int = 1, **values: object) -> Problem:
    """Return the problem ``code`` with ``values`` in its text.

    Raises ``KeyError`` for an unknown code or a missing value. Braces in a value are not replaced again.
    """
    kind = PROBLEMS[code]
    return Problem(
        code=code,
        severity=kind.severity,
        count=count,
        message=kind.message.format_map(values),
        fix=kind.fix.format_map(values),
    )


_EXPORT_AGAIN = "Copy the file again, or export it again from the program that wrote it."
_FREE_SPACE = "Free disk space or choose another folder, then run the cell again."
_STOP_HISTORY = "To stop it, call torch.cuda.memory._record_memory_history(enabled=None)."
_NO_STEP = "No step was recorded: the run ended {phase}, after {steps}."
_MORE_STEPS = "Run more steps, or request fewer with --wait, --warmup and --active."
_PARTIAL = "Partial: {complete} of {requested} steps are complete. The run ended {phase}, after {steps}."
_OUT_OF_MEMORY = "The device ran out of memory {place}{request}."

# The part of a code before the dot says where the problem occurs.
PROBLEMS: Final[dict[str, Kind]] = {
    # Recording: what was not recorded, and why.
    "capture.never_started": Kind(
        "data_loss",
        "Nothing was recorded, because the profiled loop was never entered.",
        "Choose another loop with --step line:N, or record the whole cell with --step cell.",
        "The cell ended before it reached the loop that makes the steps.",
    ),
    "capture.no_step_seen": Kind(
        "data_loss",
        "Nothing was recorded, because no loop of the cell was seen to run torch operations.",
        "Choose the loop with --step line:N, or record the whole cell with --step cell.",
        "Several loops may have been meant, and the first iterations of none showed that it makes the steps.",
    ),
    "capture.optimizer_elsewhere": Kind(
        "warning",
        "The loop on line {line} was recorded, but outside of it an optimizer made {steps}{where}.",
        "Choose the loop that trains with --step line:N, or end a step with each call of optimizer.step() with --step "
        "optimizer.",
        "A loop was recorded in which no optimizer stepped, and one stepped elsewhere in the cell.",
    ),
    "capture.model_trained": Kind(
        "warning",
        "A step is a call of {model}, but then an optimizer stepped, too.",
        "End a step with each call of optimizer.step() with --step optimizer, or choose a loop with --step line:N.",
        "Where no loop of the cell makes steps, those of a program that only calls a model begin with its calls. This "
        "one trains later.",
    ),
    "capture.tiny_steps": Kind(
        "info",
        "A step lasts {length} without the profiler, which is less than recording one takes: recorded ops take longer "
        "than others.",
        "Choose a loop around this one with --step line:N, or record the whole cell with --step cell.",
        "The median of the steps that ran without the profiler is below 10 µs.",
    ),
    "capture.nothing_recorded": Kind(
        "data_loss", _NO_STEP, _MORE_STEPS, "The run ended before the schedule reached its first recorded step."
    ),
    "capture.loop_too_short": Kind(
        "data_loss",
        _NO_STEP,
        f"{_MORE_STEPS} The loop on line {{line}} was profiled; choose another one with --step line:N.",
        "The loop ended before the schedule reached its first recorded step.",
    ),
    "capture.empty_loop": Kind(
        "data_loss",
        _NO_STEP,
        "Check that the loop has items, and that its first iteration ends.",
        "The loop has no items, or it was left in its first iteration.",
    ),
    "capture.step_not_called": Kind(
        "data_loss",
        "No step was recorded, because step() was never called.",
        "Call step() at the end of every step, or use --step auto.",
        "Steps are ended by hand (--step manual), but `step()` was not called.",
    ),
    "capture.nothing_scheduled": Kind(
        "data_loss",
        _NO_STEP,
        "Fix the schedule. It ended the recording before any step was recorded.",
        "A schedule function failed before it asked for a recorded step.",
    ),
    "capture.stopped_too_soon": Kind(
        "data_loss",
        _NO_STEP,
        "Let the run reach its recorded steps, or record from the first step with --wait 0 --warmup 0.",
        "An exception or an interrupt ended the run before the first recorded step.",
    ),
    "capture.too_few_steps": Kind(
        "warning",
        _PARTIAL,
        _MORE_STEPS,
        "The loop ended before the schedule was complete.",
    ),
    "capture.partial": Kind(
        "warning",
        _PARTIAL,
        "",
        "An exception, an interrupt or another problem of this table ended the recording early.",
    ),
    "capture.busy": Kind(
        "data_loss",
        "Nothing was recorded, because another profiler was running when the loop began.",
        "Stop the other profiler before the loop.",
        "The code before the loop started a profiler of its own and did not stop it.",
    ),
    "capture.taken_over": Kind(
        "data_loss",
        "Another profiler started at step {step} and ended this recording: {detail}.",
        "Remove the torch.profiler calls from the cell, or run the cell without %%torchprof.",
        "The recorded code starts a profiler of its own. torch can run only one at a time.",
    ),
    "capture.gave_up": Kind(
        "data_loss",
        "torch's profiler failed: {error}",
        "Run the cell again. If this happens again, record fewer steps with --active.",
        "torch raised an error when a recording was started or stopped. The cell itself went on.",
    ),
    "capture.failed": Kind(
        "data_loss",
        "The recording ended early because of an error in torchprof: {error} (torch {torch}).",
        "Your code was not affected. Please report this with the output of %torchprof doctor.",
        "torchprof itself failed. The code ran on without the profiler, and what was recorded until then is kept.",
    ),
    "capture.rescue_failed": Kind(
        "data_loss",
        "torch's profiler could not be stopped cleanly: {error}",
        "Run the cell again.",
        "torch failed, and failed again when the profiler was switched off. What it had recorded is lost.",
    ),
    "capture.reclaimed": Kind(
        "data_loss",
        "The recording was ended by a later run or by %torchprof off. Its data was discarded.",
        "Run the cell again.",
        "A run was left without being stopped, such as one in a generator that was never resumed.",
    ),
    "capture.device_stopped": Kind(
        "data_loss",
        "Device events end at step {step}, because the buffers for them were full.",
        "Record fewer steps with --active.",
        "CUPTI stopped recording, because too many device events occurred in one cycle.",
    ),
    "capture.no_ops": Kind(
        "info",
        "No torch operation ran in the recorded steps.",
        "To step another loop, use --step line:N or --step optimizer.",
        "The recorded steps ran no torch code on the recorded thread.",
    ),
    # Recording: schedules and steps.
    "capture.schedule_failed": Kind(
        "warning",
        "The schedule failed at step {step}: {reason}. Recording ended before that step.",
        "Fix the schedule. It takes the number of a step and returns a torch.profiler.ProfilerAction.",
        "A schedule function raised an exception, or returned something other than a `ProfilerAction`.",
    ),
    "capture.one_pass": Kind(
        "warning",
        "Only one pass was recorded, because {reason}. Recording details makes its times longer.",
        "Run more steps, or record times alone, without --two-pass.",
        "`--two-pass` needs a loop with enough steps to record twice.",
    ),
    "capture.not_watched": Kind(
        "warning",
        "The run was not watched: this code has no steps.",
        "Watch a training loop, or say what ends a step with --step.",
        "`--watch` was given for code without a loop that makes steps.",
    ),
    "capture.only_times": Kind(
        "info",
        "Only times were recorded, because {reason}.",
        "For {details}, add {flags}, or run a loop of at least 5 steps.",
        "Without a flag that says what to record, details come from later steps of the loop, which has too few.",
    ),
    "capture.only_times_block": Kind(
        "info",
        "Only times were recorded, because the block is recorded as a whole.",
        "For {details}, step the loop with p.steps(iterable), or ask for them with {keywords}.",
        'With `profile(preset="auto")`, details come from later steps; nothing said before the first that there would '
        "be any.",
    ),
    "capture.times_ended": Kind(
        "info",
        "Times were recorded in {steps}, until step {step}: they make the loop about {cost} longer, and with another "
        "step it would be more than {limit}.",
        "To record more steps, add --budget with a longer time.",
        "Without a flag that says what to record, recording may cost 10 % of the loop or 2 s, whichever is more. The "
        "first recorded steps showed that the next one would pass that.",
    ),
    "capture.details_left_out": Kind(
        "info",
        "Only times were recorded: details would have made the loop about {cost} longer, the times took {spent}, and "
        "all together may cost {limit}.",
        "To record them all the same, add --budget with a longer time, or {flags}.",
        "Without a flag that says what to record, recording may cost 10 % of the loop or 2 s, whichever is more. "
        "Ending the cycle of times showed that details would cost more than is left.",
    ),
    "capture.details_dropped": Kind(
        "info",
        "{what} {were} not recorded: with all details, a single step would have made the loop about {cost} longer, the "
        "times took {spent}, and all together may cost {limit}.",
        "To record more, add --budget with a longer time, or {flags}.",
        "Without a flag that says what to record, recording may cost 10 % of the loop or 2 s, whichever is more. "
        "Stacks are left out first, then memory.",
    ),
    "capture.details_ended": Kind(
        "info",
        "Details were recorded in {steps}, until step {step}: they make the loop about {cost} longer, the times took "
        "{spent}, and with another step all together would cost more than {limit}.",
        "To record more steps with details, add --budget with a longer time.",
        "Without a flag that says what to record, recording may cost 10 % of the loop or 2 s, whichever is more.",
    ),
    "capture.details_ended_by_memory": Kind(
        "info",
        "Details were recorded until step {step}: {reason}, and may take {limit}.",
        "To record more steps with details, add --budget with a larger size.",
        "Without a flag that says what to record, details may take 1 GB while they are recorded.",
    ),
    "capture.kept_tensors": Kind(
        "warning",
        "torch's recording kept {size} of tensors that the program had let go, and perhaps more that no object of "
        "Python used. By that, the memory in use and its peak are higher than without the profiler.",
        "torch keeps what torch.func and vmap have wrapped until a recording ends. Fewer recorded steps, as with "
        "--active 1, keep less.",
        "Memory of the host became free when torch's events of the recording were deleted: nothing else held it.",
    ),
    "capture.no_lines": Kind(
        "info",
        "Lines of your functions were not timed, because {reason}.",
        "For these, add --lines, or run a loop of at least 9 steps.",
        "Without a flag that says what to record, lines of functions are timed in a step after those with details.",
    ),
    "capture.lines_left_out": Kind(
        "info",
        "Lines of your functions were not timed: with them, details would have made the loop about {cost} longer, the "
        "times took {spent}, and all together may cost {limit}.",
        "To time them all the same, add --budget with a longer time, or --lines.",
        "Without a flag that says what to record, recording may cost 10 % of the loop or 2 s, whichever is more. "
        "What came before, and a step as those of the times, cost more.",
    ),
    "capture.one_pass_block": Kind(
        "warning",
        "Only one pass was recorded, because everything in the block is one step. Recording details makes its times "
        "longer.",
        "For two passes, step the loop with p.steps(iterable), or give schedule arguments and call p.step().",
        "`profile(two_pass=True)` was used without steps.",
    ),
    "capture.later_loop": Kind(
        "info",
        "The loop at {place} was not recorded: the schedule was complete after an earlier loop.",
        "Set a schedule that goes on (--repeat 0, or repeat=0), or record each loop in a cell or block of its own.",
        "`steps()` was called for another loop when every cycle of the schedule had been recorded.",
    ),
    "capture.later_training": Kind(
        "info",
        "A later training was not recorded: the recording ended with the first one.",
        "Record each training in a cell or block of its own.",
        "A trainer's callback began a second training in one recording.",
    ),
    "capture.lines_lost": Kind(
        "warning",
        "Lines began so often that the times of some are missing.",
        "Record fewer steps, or move the loop into a function.",
        "A step of the cell had more than 200,000 lines that began, or the recording more than 2 million, or 500,000 "
        "in functions.",
    ),
    "capture.functions_left_out": Kind(
        "info",
        "Lines of {names} were not timed, because more than 100,000 of them ran in a step. Their time counts for the "
        "calling lines.",
        "To time its other lines, move the loop into a function of its own.",
        "Noting each line of a long Python loop takes longer than the step itself.",
    ),
    "capture.lines_refused": Kind(
        "warning",
        "The lines of functions were not timed, because a debugger or a coverage tool traces this thread.",
        "End it, or record without --lines.",
        "`--lines` was used while `sys.settrace` was set. Python allows one such function at a time.",
    ),
    "capture.python_profiler": Kind(
        "warning",
        "Recording Python stacks ended another profiler of Python functions: {name}. {what}, and lacks what ran "
        "meanwhile.",
        "Record without stacks, or end the other profiler first.",
        "Stacks were recorded while cProfile (up to Python 3.11) or a function of `sys.setprofile` was running. Python "
        "calls one such profiler per thread.",
    ),
    "capture.modules_not_watched": Kind(
        "info",
        "Calls of modules were not noted, because there are so many that it would cost more than 3 % of a step.",
        "Use --modules, or with_modules=True, to time them anyway.",
        "A step before the recording had many calls of modules for its length.",
    ),
    "capture.part_failed": Kind(
        "warning",
        "{part} failed and was left out: {error} (torch {torch}).",
        "Your code was not affected; the rest was recorded. Please report this with the output of %torchprof doctor.",
        "Something that torchprof sets up around the code raised an error: a hook, a watch, a check or a display.",
    ),
    "capture.step_outside": Kind(
        "info",
        "step() was called while nothing was being recorded.",
        "",
        "`step()` was called before the recording began or after it ended. The call did nothing.",
    ),
    "capture.other_thread": Kind(
        "warning",
        "step() or stop() was called on another thread or in a forked process. The call was ignored.",
        "Call it on the thread that started the recording.",
        "torch can start and stop a recording only on the thread that started it.",
    ),
    "capture.in_backward": Kind(
        "warning",
        "step() was called inside backward(), where torch cannot start or stop a recording. The step went on.",
        "Call step() after backward() has returned, or step a loop with --step line:N.",
        "A step was to end in a hook of a tensor, as when an optimizer runs inside `backward()`.",
    ),
    "capture.compiled_step": Kind(
        "warning",
        "step() is called in a function that torch.compile compiles. Every call causes a graph break.",
        "Call step() outside the compiled function, at the end of the loop body.",
        "`step()` was called from compiled code.",
    ),
    "capture.compilations_left_out": Kind(
        "info",
        "torch.compile compiled more often than is listed: `report.compilations` lacks what is beyond {limit}.",
        "To have torch keep more of them, call torch._dynamo.utils.set_compilation_metrics_limit() before.",
        "More was compiled between two looks than torch keeps, or more than 1,000 times in a run.",
    ),
    "capture.paused": Kind(
        "info",
        "Recording of {kind} events was paused {times}, for {duration} in total. "
        "What ran during that time is not in the report, and the time looks idle.",
        "To record this work, move it out of paused().",
        "The recorded code used `paused()`.",
    ),
    "capture.evaluation": Kind(
        "info",
        "Evaluation between the recorded steps is in none of them: {times}, for {duration} in total. Its ops were not "
        "recorded, and its time looks idle.",
        "To record an evaluation, call it in a cell or block of its own.",
        "The callback of a trainer was told that an evaluation runs inside the training.",
    ),
    "capture.by_optimizer": Kind(
        "info",
        "The loop in {where}() cannot be seen from the cell, so each call of optimizer.step() ended a step. Evaluation "
        "between two of them is in a step.",
        "For the trainer's own steps, give it the callback that torchprof_magic.callbacks.{callback}() returns.",
        "The cell trains with a `Trainer` of Transformers or Lightning that has no callback of torchprof.",
    ),
    "capture.callback_options": Kind(
        "info",
        "The options of {callback} were not used, because {recording} was already recording.",
        "Give the options to {recording}, or train without it.",
        "A trainer's callback has joined a recording.",
    ),
    "capture.not_paused": Kind(
        "warning",
        "paused() had no effect, because torch cannot pause a recording of all threads.",
        "Record without --all-threads, or move that work out of the recorded steps.",
        "The recorded code used `paused()` together with `--all-threads`.",
    ),
    "capture.torch_lacks": Kind(
        "warning",
        "torch {version} has no {what}: {instead}.",
        "Update torch.",
        "The recorded code used something that this version of torch lacks, such as `paused()` before torch 2.5.",
    ),
    # Recording: budgets.
    "capture.budget": Kind(
        "warning",
        "Recording stopped after step {step}: {reason} (budget {limit}).",
        "Record fewer steps with --active, record less per step, or raise --budget.",
        "The recording used up its budget of memory or time. By default half of the free memory is used.",
    ),
    "capture.budget_files": Kind(
        "warning",
        "Recording stopped after step {step}: the trace files take up {size} (budget {limit}).",
        "Record fewer cycles with --repeat, record less per step, or raise --budget-files.",
        "The trace files of the recording are larger than `--budget-files` allows.",
    ),
    "capture.degraded": Kind(
        "warning",
        "Cycle {cycle} ended early, after step {step}: {reason} (budget {limit}). Later cycles leave out {left_out}.",
        "To record everything in every cycle, record fewer steps with --active, or raise --budget.",
        "A cycle used up its budget of memory, and later cycles can record less.",
    ),
    "capture.watch_budget": Kind(
        "warning",
        "Cycle {cycle} ended early, after step {step}: {reason} (budget {limit}).{rest}",
        "To record more in each cycle, raise --budget.",
        "A recording of a run with `--watch` used up its budget of memory. Later ones record no details.",
    ),
    "capture.stacks_ended": Kind(
        "warning",
        "Stacks end in step {step}, {moment} after recording began: {calls} Python calls were recorded by then (limit "
        "{limit}). {rest}",
        "Record fewer steps with --active, or raise --budget-calls: ending a recording takes torch 3 to 5 µs and up to "
        "3 kB for each Python call, and the report as much again.",
        "The program made more Python calls than `--budget-calls` allows. What was recorded later has no stacks, and "
        "is faster, as recording Python calls takes time.",
    ),
    "capture.calls_not_counted": Kind(
        "info",
        "Python calls cannot be counted here: {reason}. {instead}",
        "Set --budget-calls higher if stacks end too early, or record fewer steps with --active.",
        "Python calls are counted in torch on Linux, and by `sys.monitoring` from Python 3.12 on. Where neither works, "
        "stacks end by the growth of the process.",
    ),
    "capture.budget_half": Kind(
        "info",
        "Recording up to step {step} used {share} of its memory budget: {reason} (budget {limit}).",
        "Raise --budget before you record more steps, or more per step.",
        "A recording came close to its budget of memory.",
    ),
    # Recording: work that is not in it, or not of the cell.
    "capture.other_threads": Kind(
        "warning",
        "Other threads were active during the recording ({names}). Their ops were not recorded.",
        "Record them with --all-threads, in a run without --memory.",
        "Threads began, or modules ran on them, during recorded steps. torch records only the thread that started the "
        "profiler, and autograd.",
    ),
    "capture.other_processes": Kind(
        "warning",
        "Other processes were active during the recording ({names}). Their ops were not recorded.",
        "To record their work, run a few steps that do it in this process.",
        "Processes began during recorded steps, or belong to a process pool.",
    ),
    "capture.other_tasks": Kind(
        "info",
        "The task {task} was started before this code and ran while it awaited. Its ops were recorded, too.",
        "Cancel the task, or let it finish, before you start the recording.",
        "An asyncio task of an earlier cell ran while the recorded code awaited.",
    ),
    "capture.during_graph_capture": Kind(
        "warning",
        "The profiler started at step {step} while a CUDA graph was being captured. Kernels do not run during a "
        "capture, so they are not in the recording. The capture itself may fail.",
        "Capture the graph before the first recorded step, and record its replays.",
        "A recorded step begins inside `torch.cuda.graph(...)`.",
    ),
    "capture.cupti_kept": Kind(
        "info",
        "torch keeps CUPTI loaded after this recording (TEARDOWN_CUPTI=0), because torch.compile makes CUDA graphs. "
        "Kernels can be 10 to 20 % slower from now on.",
        "Restart the kernel before you measure times without the profiler.",
        "torch.compile makes CUDA graphs, and CUDA is older than 12.6.",
    ),
    "capture.torch_warning": Kind("warning", "{text}", "", "torch's profiler issued a warning. The text is torch's."),
    "capture.handler_failed": Kind(
        "warning",
        "on_trace_ready raised {error}",
        "Fix on_trace_ready. The recording itself is complete.",
        "The handler that was passed as `on_trace_ready` raised an exception.",
    ),
    # Recording: files.
    "capture.invalid_trace": Kind(
        "data_loss",
        "{file} was saved as torch wrote it, but {flaw}.",
        "Avoid quotes, backslashes and non-ASCII letters in record_function names and metadata, or use a newer torch.",
        "torch wrote a trace that is not valid JSON, or with changed names.",
    ),
    "capture.host_only": Kind(
        "data_loss",
        "{file} has only what the host did, because torch's export of the device's work did not come.",
        "Run the cell again. If this happens again, record without CuspyConfig.",
        "torch 2.15 or newer was asked to record the device by its own backend, which wrote no file.",
    ),
    "capture.not_saved": Kind(
        "data_loss",
        "{file} was not saved: {reason} ({space}).{tried}",
        _FREE_SPACE,
        "No folder could take the trace. The message says how much space it needs, and what was tried.",
    ),
    "capture.saved_elsewhere": Kind(
        "warning",
        "{file} could not be written to {folder} ({reason}). It was saved to {fallback} instead.",
        "The file stays there until you delete it. Free disk space or choose another folder for the next run.",
        "The disk was full, or the folder was deleted or is read-only. See [failures.md](failures.md).",
    ),
    "capture.not_confirmed": Kind(
        "warning",
        "{path} was saved, but the disk reported an error first: {error}.",
        "Save the report, or copy the file to another disk.",
        "The disk could not confirm that the trace was written, although a second attempt succeeded.",
    ),
    "capture.given_up": Kind(
        "data_loss",
        "{file} was not saved, because of repeated interrupts.",
        "Run the cell again.",
        "The run was interrupted three times while the trace was being saved.",
    ),
    "capture.execution_trace": Kind(
        "info",
        "An execution trace was saved to {path}.",
        "",
        "The environment variable ENABLE_PYTORCH_EXECUTION_TRACE asked for an execution trace.",
    ),
    "capture.observer_failed": Kind(
        "warning",
        "The execution_trace_observer failed when it was ended ({error}). Its file may be incomplete.",
        "Correct the observer.",
        "The method cleanup() of an observer of the user's own raised an exception.",
    ),
    "capture.no_execution_trace": Kind(
        "data_loss",
        "The execution trace was not saved to {path}: {reason}.",
        "Choose another file with --execution-trace, then run the cell again.",
        "The file that was passed as `--execution-trace` could not be written, or torch wrote no valid one.",
    ),
    # Recording: memory snapshots.
    "capture.snapshot": Kind(
        "info",
        "A memory snapshot was saved to {path}.",
        "Open it with torchprof_magic.load(...), or at https://pytorch.org/memory_viz.",
        "The cell ran with `--snapshot`.",
    ),
    "capture.no_snapshot": Kind(
        "data_loss",
        "No memory snapshot could be taken: {error}",
        "Run the cell again.",
        "torch failed to take the memory snapshot that `--snapshot` asked for.",
    ),
    "capture.snapshot_not_saved": Kind(
        "data_loss",
        "The memory snapshot was not saved to {path}: {reason}.",
        "Free disk space or choose another file with --snapshot, then run the cell again.",
        "The file of `--snapshot` could not be written, or saving it was interrupted repeatedly.",
    ),
    "capture.history_was_on": Kind(
        "info",
        "The allocator history was already on, and stays on. The snapshot includes older entries.",
        _STOP_HISTORY,
        "`torch.cuda.memory._record_memory_history()` was called before a cell with `--snapshot`.",
    ),
    "capture.history_stays_on": Kind(
        "warning",
        "The allocator history could not be switched off: {error}",
        _STOP_HISTORY,
        "torch failed to end the allocator history after a cell with `--snapshot`.",
    ),
    "capture.out_of_memory": Kind(
        "warning",
        _OUT_OF_MEMORY,
        "Run again with --snapshot (snapshot=True) to see what held the memory, if the device supports it.",
        "The cell ended with an out-of-memory error of the device.",
    ),
    "capture.out_of_memory_snapshot": Kind(
        "warning",
        _OUT_OF_MEMORY,
        "To see what held the memory, open {path}.",
        "The cell ended with an out-of-memory error of the device, and a snapshot shows that moment.",
    ),
    "capture.snapshot_not_read": Kind(
        "info",
        "The memory snapshot is not in the report: {reason}.",
        "Open {path} with torchprof_magic.load(...).",
        "The snapshot of `--snapshot` is too large to be read with the report, or damaged.",
    ),
    # From recording to report.
    "run.too_large": Kind(
        "data_loss",
        "{file} was saved, but is too large to analyse here: {reason}.",
        "The trace is kept at {path}. Open it with tp.load() where more memory is free, or record fewer steps.",
        "There is too little free memory or address space to read the trace without risking the kernel.",
    ),
    "run.unreadable_cycle": Kind(
        "data_loss",
        "A recorded cycle could not be read: {error}.",
        "The trace is kept at {path}.",
        "The trace of one cycle is damaged. The report shows the other cycles.",
    ),
    "run.redacted": Kind(
        "info",
        "What tells of the machine and the program was left out for sharing: {left_out}.",
        "",
        "The file was written with `redact=True`.",
    ),
    "run.two_pass": Kind(
        "info",
        "{origin}; {found} ops were found in both.{rest}",
        "",
        "The run recorded times in one cycle and details in another (`--two-pass`, or no such flag at all).",
    ),
    "run.two_pass_differs": Kind(
        "warning",
        "{origin}, but only {found} ops were found in both passes: the steps did different work.{rest}",
        "The other ops have no details. Record steps that do the same work, or record times and details together, with "
        "--memory, --shapes or --stack alone.",
        "Less than 90 % of the ops were found in both passes.",
    ),
    "run.two_pass_one_step": Kind(
        "warning",
        "Only times were recorded: everything was one step, so none was left for the second pass.",
        "Record without --two-pass, or add steps: a loop in the cell, or tp.step().",
        "`--two-pass` was used for code without steps.",
    ),
    "run.two_pass_no_details": Kind(
        "warning",
        "Only times were recorded: the second pass, which records the details, has no step.",
        "Run the loop for more steps, or record fewer with --active.",
        "The run ended before the second pass began.",
    ),
    "run.auto_one_step": Kind(
        "info",
        "Only times were recorded, because everything was one step.",
        "For {details}, add {flags}.",
        "Without a flag that says what to record, details come from later steps, and the code has none.",
    ),
    "run.auto_times": Kind(
        "info",
        "Times are from {times}.{rest}",
        "",
        "Details would have cost too much. This says which steps were recorded, and how much longer the loop took.",
    ),
    "run.auto_no_details": Kind(
        "info",
        "Only times were recorded: the code ended before the steps that would have recorded details.",
        "Run the loop for more steps, or add {flags}.",
        "Without a flag that says what to record, details come from later steps of the loop, which it did not reach.",
    ),
    "run.auto_lines": Kind(
        "info",
        "Times are from {times}, lines of your functions from {lines}, in proportion to the times.",
        "",
        "Without a flag that says what to record, times come from the first recorded steps, and nothing else but the "
        "lines of functions was recorded after them.",
    ),
    "run.two_pass_no_times": Kind(
        "warning",
        "The pass that records the times was lost. Times are from the pass with details, so they are too long.",
        "Run the cell again.",
        "The trace of the first pass could not be saved or read.",
    ),
    # What the trace itself shows.
    "run.workers_unseen": Kind(
        "info",
        "A DataLoader used worker processes. Their work is not recorded, only the time spent waiting for them.",
        "To record their work, run a few steps with num_workers=0.",
        "The trace contains fetches of a DataLoader with `num_workers` above 0.",
    ),
    "run.compiled": Kind(
        "warning",
        "torch.compile was compiling for {duration} while steps were recorded.",
        "Let it finish first: run the cell again, or add steps with --warmup or --skip-first.",
        "The trace contains ranges of the compiler.",
    ),
    "run.no_kernels": Kind(
        "data_loss",
        "The GPU was not recorded: {signs}, but no kernel, copy or fill is in the file.",
        "Record its activity as well (--activities cpu,cuda, or activities=[CPU, CUDA]). If it was, another tool "
        "(Nsight, DCGM) may be using the profiling interface of the device, or access is denied.",
        "The trace contains launches, ops that only a GPU runs, or memory of one, but no device events.",
    ),
    "run.work_missing": Kind(
        "data_loss",
        "{launches} {have} no work of the device in the file{steps}.",
        "Restart the kernel and record again: later recordings of a process can lose work. report.coverage has the "
        "counts.",
        "Launches have no device events, although their work must have run during the recording.",
    ),
    "run.graph_work_missing": Kind(
        "data_loss",
        "{kernels} of graphs {are} missing{steps}: the same launch started more in another step.",
        "Restart the kernel and record again.",
        "A launch of a CUDA graph has fewer of the same kernels than that at the same place in another step.",
    ),
    "run.launches_missing": Kind(
        "warning",
        "At least {launches} are probably not in the file{steps}: ops launch more in the same place of other steps.",
        "Restart the kernel and record again, unless these ops have less to do there.",
        "Ops launch less than most do at the same place of other steps. Launches are lost together with their work.",
    ),
    "run.work_after_end": Kind(
        "info",
        "The work of {launches} at the end of the recording ran later and is not in it.",
        "Synchronize the device before the recording ends.",
        "The last launches have no device events, and nothing waited for them during the recording.",
    ),
    "run.clock": Kind(
        "warning",
        "The clock of device {device} {is_off} that of the host by about {amount}, as {works} of its work show.",
        "Tables move its work by that much; report.as_recorded() has all times as they are in the file. Restart the "
        "kernel before recording again.",
        "Nearly all work of a device begins before its launch, after an idle device should have begun it, or ends "
        "after a wait for it.",
    ),
    "run.before_launch": Kind(
        "warning",
        "Kernels, copies or fills begin before the call that launched them, by up to {amount}.",
        "Restart the kernel before recording again: the clocks of host and device drift apart.",
        "A device event begins more than 2 µs before its launch, and its clock is not off by a constant.",
    ),
    "run.after_wait": Kind(
        "warning",
        "Kernels, copies or fills end after the call that waited for them, by up to {amount}.",
        "Tables cut them off there; report.as_recorded() has all times as they are in the file.",
        "A device event ends more than 2 µs after a synchronization that waited for it.",
    ),
    "run.over_next": Kind(
        "warning",
        "Kernels, copies or fills last over the whole of the next work of their stream, by up to {amount}.",
        "Tables cut them off there; report.as_recorded() has all times as they are in the file.",
        "The duration of a device event overflowed: streams run their work in turn.",
    ),
    "run.over_steps": Kind(
        "warning",
        "Kernels, copies or fills last several steps and far longer than others, up to {amount}.",
        "Tables cut them off at the end of their step; report.as_recorded() has all times as they are in the file.",
        "A device event lasts over 3 typical steps, or the recording, and over 10 times as long as its like.",
    ),
    "run.graph_launches": Kind(
        "info",
        "{kernels} of {work} ran in CUDA graphs, each started by one launch. "
        "Their names, times and streams are known, but not the ops they come from, so their time is assigned to the "
        "op around the launch.",
        "To see the time by op, load the recording of the capture as well: load(path, capture=path_of_the_capture). "
        "Or annotate the graphs (docs/recording.md), or record a step without them.",
        "Most device work was started by launches of CUDA graphs whose capture is not known.",
    ),
    "run.graph_unmatched": Kind(
        "warning",
        "{kernels} of graphs, {share} of the device time, have no op: they fit no captured launch.",
        "Load the capture of the same graph, with the same batch size: load(path, capture=path_of_the_capture). "
        "It accepts a list of captures.",
        "Captures of graphs are known, but some work of graphs could not be matched with their launches.",
    ),
    "run.graph_unsure": Kind(
        "warning",
        "{replays} of graphs fit several captures equally well, so ops and shapes may be those of another one. "
        "Those of the last one are shown.",
        "Load only the capture of the graph that was replayed.",
        "Captures with different ops have the same kernels, and the replays do not say their grids.",
    ),
    "run.graph_by_order": Kind(
        "info",
        "{replays} of graphs were matched with the captured launches by their order alone: "
        "the calls do not say which kernels they launch.",
        "",
        "A graph has exactly the work that was captured, on one stream, and the captured launches have no names.",
    ),
    "run.capture_only": Kind(
        "info",
        "This is the recording of a capture: {launches} were captured into a graph, and nothing of it ran.",
        "Record replays of the graph, and load them with it: load(path_of_the_replay, capture=path_of_this_file).",
        "Most launches were captured into a graph, and no graph was launched.",
    ),
    "run.no_capture": Kind(
        "warning",
        "No captured launch is in {file}, which was loaded as a capture.",
        "Record the step in which the graph is captured, with the profiler running before the capture begins.",
        "A file that was given as `capture` has no calls that launch kernels without running them.",
    ),
    "run.distorted": Kind(
        "warning",
        "Recorded steps took {ratio} times as long as steps without the profiler ({basis}).",
        "Compare percentages, not times{advice}. The recorded steps may also have done more work than the others.",
        "Recorded steps took at least 1.5 times as long as steps that ran without the profiler.",
    ),
    "run.shared_sequence": Kind(
        "info",
        "Sequence numbers are shared by different nodes of autograd, so their forward ops and lines may be wrong.",
        "",
        "Nodes of different names have the same sequence number in the same thread.",
    ),
    "run.collective_unnamed": Kind(
        "info",
        "Collectives lack their name, type, sizes or group, which others of the file have.",
        "",
        "A `record_param_comms` lacks one of these arguments.",
    ),
    "advice.rule_failed": Kind(
        "warning",
        "The rule {rule} failed: {error}. Its advice is missing.",
        "Fix the rule, or remove it with torchprof_magic.rules.remove(name).",
        "A rule for advice raised an exception, or returned something other than `Advice`.",
    ),
    # Keeping and uploading.
    "store.not_stored": Kind(
        "data_loss",
        "{reason}.",
        "Save the report, or copy that file elsewhere.",
        "The trace could not be copied to `--trace-dir`. The original is not deleted.",
    ),
    "store.snapshot_not_stored": Kind(
        "warning",
        "{reason}.",
        "The original file is not deleted.",
        "The memory snapshot could not be copied to `--trace-dir`.",
    ),
    "store.note": Kind(
        "warning",
        "{file} was stored, but {note}.",
        "",
        "The trace was copied to `--trace-dir`, but something else failed, such as deleting an older one.",
    ),
    "store.deleted": Kind(
        "info",
        "Older traces in {folder} were deleted: {files}.",
        "",
        "`--keep-last` limits the number of kept traces. Only traces that torchprof wrote there are deleted.",
    ),
    "store.snapshot_note": Kind(
        "warning",
        "{file} was stored, but {note}.",
        "The original file is not deleted.",
        "The memory snapshot was copied to `--trace-dir`, but the copy may not be safe there.",
    ),
    "store.rank_unknown": Kind(
        "warning",
        "The rank of this process is unknown: {reason}. Its traces count as those of rank {rank}.",
        "Start the kernel with its RANK, or put {{pid}} into --filename.",
        "The launcher started several processes but did not tell this one its rank.",
    ),
    "store.not_uploaded": Kind(
        "data_loss",
        "The trace was not uploaded: {error}.",
        "The trace is kept at {path}.",
        "The upload to `--remote` could not be prepared. `%torchprof uploads` shows those that were.",
    ),
    # Files: as bytes, as JSON, as a trace.
    "file.damaged_gzip": Kind(
        "data_loss",
        "The gzip data is damaged. Everything after the damage could not be read.",
        _EXPORT_AGAIN,
        "The checksum or the structure of a .gz file is wrong.",
    ),
    "file.cut_off_gzip": Kind(
        "data_loss",
        "The gzip data is cut off. All complete events are shown.",
        _EXPORT_AGAIN,
        "A .gz file ends early, for example because it is still being written.",
    ),
    "file.gzip_bomb": Kind(
        "data_loss",
        "The gzip data expands far more than any trace does. Reading stopped there.",
        "Unpack the file yourself if you trust it, and open the .json.",
        "A .gz file unpacks to more than 250 times its size.",
    ),
    "file.newer_run": Kind(
        "warning",
        "The run was saved by a newer torchprof-magic (format {version}, this one knows {known}). {left_out} of its "
        "columns and tables are not known here and were left out.",
        "Update with `pip install -U torchprof-magic`.",
        "A saved run of a newer version is opened as far as possible.",
    ),
    "file.trailing_bytes": Kind(
        "warning",
        "The compressed data is followed by bytes that are not gzip. They were ignored.",
        "",
        "A .gz file goes on after the end of its data.",
    ),
    "text.utf16": Kind(
        "info", "The file is encoded in UTF-16 and was read as such.", "", "Windows PowerShell writes such files."
    ),
    "json.cut_off": Kind(
        "data_loss",
        "The JSON is cut off. All complete events are shown.",
        _EXPORT_AGAIN,
        "The file ends early, for example because its process was killed.",
    ),
    "json.bad_utf8": Kind(
        "warning",
        "Strings contain bytes that are not valid UTF-8. They are shown as replacement characters.",
        "",
        "A name was written in another encoding, or cut within a character.",
    ),
    "json.control_character": Kind(
        "warning",
        "Strings contain unescaped control characters. They were kept.",
        "",
        "A name contains a line break or another control character.",
    ),
    "json.bad_escape": Kind(
        "warning",
        "Strings contain unescaped backslashes, as in Windows paths. They were read as backslashes.",
        "Newer versions of torch escape them.",
        "An older torch wrote the trace, with backslashes in names.",
    ),
    "json.inner_quote": Kind(
        "warning",
        "Strings contain unescaped quotes. They were read as part of the string.",
        "",
        "An older torch wrote the trace, with quotes in names.",
    ),
    "json.not_a_number": Kind(
        "warning",
        "Values such as NaN, Infinity or N/A are not valid JSON. They were read as missing.",
        "",
        "The program that wrote the file does not follow the JSON standard.",
    ),
    "json.comma": Kind(
        "info",
        "Commas are missing or superfluous. This was ignored.",
        "",
        "The file was edited or joined by hand, or by a script.",
    ),
    "json.deep_nesting": Kind(
        "warning",
        "Values nested hundreds of levels deep were left out of their events.",
        "",
        "The arguments of an event are lists in lists, beyond any sensible depth.",
    ),
    "json.structure": Kind(
        "warning",
        "Brackets or values are in the wrong place. The events around them were ended there.",
        _EXPORT_AGAIN,
        "Part of the file is missing or overwritten.",
    ),
    "json.lost": Kind(
        "data_loss",
        "Parts of the text could not be read as events and were left out.",
        _EXPORT_AGAIN,
        "Part of the file is missing or overwritten.",
    ),
    "json.given_up": Kind(
        "data_loss",
        "More than 100,000 entries in a row are not events. What follows them was not read.",
        _EXPORT_AGAIN,
        "A file of brackets or other fragments, as of a program that failed or an attempt to exhaust memory.",
    ),
    "json.head": Kind(
        "warning",
        "The part of the file around the events is damaged. Some metadata may be missing.",
        _EXPORT_AGAIN,
        "The text before or after the list of events is not valid JSON.",
    ),
    "json.second_list": Kind(
        "data_loss",
        "The file contains a second list of events, or a second document. It was not read.",
        "Write each to a separate file.",
        "Two traces were written to one file.",
    ),
    "chrome.not_an_event": Kind(
        "warning",
        "Some entries of the event list are not events. They were left out.",
        "",
        "The list of events contains numbers, strings, or objects without a phase.",
    ),
    "chrome.autograd_export": Kind(
        "info",
        "This is an export of torch's autograd profiler. It has the time of each op on the device, and no kernels.",
        "Record with torch.profiler, or with this package, to see kernels and calls of the runtime.",
        "torch.autograd.profiler wrote the file, which was the only profiler before torch 1.8.",
    ),
    "chrome.other_kind": Kind(
        "info",
        "Events that no view uses, such as instants, were left out.",
        "",
        "The trace contains events with other phases than those that torch needs.",
    ),
    "chrome.counter_value": Kind(
        "warning",
        "Values of counters are missing or are not finite numbers. They were left out.",
        "",
        "A counter event (`C`) has no arguments, or one that is text, a list, null, infinite or beyond 1e300.",
    ),
    "chrome.odd_value": Kind(
        "warning",
        "Values have an invalid type or size. They were read as missing.",
        "",
        "A field holds a string instead of a number, or a number that is out of range.",
    ),
    "chrome.long_text": Kind(
        "warning",
        "Names are so long that only their beginning is shown.",
        "",
        "The name of an event has more than 10,000 characters, or that of a thread more than 290.",
    ),
    "chrome.no_time": Kind(
        "data_loss",
        "Events without a readable time were left out.",
        _EXPORT_AGAIN,
        "Events have no `ts`, or one that is not a number.",
    ),
    "chrome.zero_time": Kind(
        "data_loss",
        "Events have lost their times: they begin at 0 and last 0, long before all others. They were left out.",
        "Restart the kernel and record again.",
        "Events have `ts` and `dur` 0, at least 1 ms before all other events.",
    ),
    "chrome.stray_time": Kind(
        "data_loss",
        "Events are more than 30 days away from all others, probably because of a wrong clock. They were left out.",
        "Check the clock of the machine, and record again.",
        "A clock jumped, or events of two recordings are in one file.",
    ),
    "chrome.negative_duration": Kind(
        "warning",
        "Events have a negative duration, because they were not finished. They are shown with a duration of 0.",
        "",
        "Events had not ended when the recording ended.",
    ),
    "chrome.no_duration": Kind(
        "warning",
        "Events without a readable duration are shown with a duration of 0.",
        "",
        "Complete events have no `dur`, or one that is not a number.",
    ),
    "chrome.absurd_duration": Kind(
        "warning",
        "Events have a duration of more than 30 days. They are shown with a duration of 0.",
        "",
        "A duration is out of range, for example because it overflowed.",
    ),
    "chrome.unclosed_event": Kind(
        "warning",
        "Events begin but do not end in the file. They are shown up to the end of the trace.",
        "",
        "A begin event (`B`) has no end event (`E`).",
    ),
    "chrome.end_without_begin": Kind(
        "warning",
        "Events end but do not begin in the file. They were left out.",
        "",
        "An end event (`E`) has no begin event (`B`).",
    ),
    "chrome.partial_overlap": Kind(
        "info",
        "Events partly overlap another event on the same thread. They are shown beside it, not inside it. The time "
        "that they share is self time of both in the table of ops, and of one of them in the flame graph.",
        "",
        "Ranges of asyncio tasks or generators take turns on one thread, or other calls do not nest.",
    ),
    "chrome.moved_step": Kind(
        "info",
        "Steps began after most of their ops. They are shown from the end of the step before.",
        "",
        "torch 2.5 moves the beginning of steps when it records Python calls (--stack).",
    ),
    "chrome.unknown_wait": Kind(
        "info",
        "Waits for events do not say which event they wait for.",
        "",
        "A wait of a stream or of the host (`cuda_sync`) names no call that recorded its event, as with CUDA 13.",
    ),
    "chrome.early_wait": Kind(
        "warning",
        "Streams wait for events that were recorded only later.",
        "",
        "A wait of a stream names a call that recorded its event after the wait began.",
    ),
    "chrome.repeated_step": Kind(
        "warning",
        "Step numbers occur more than once, as in files of several processes. Of each number, the first step is shown.",
        "Open the trace of each process separately.",
        "Several `ProfilerStep#` events have the same number.",
    ),
    "chrome.repeated_launch": Kind(
        "warning",
        "Several launches have the same correlation number. Device events are assigned by device and time.",
        "Open the trace of each process separately.",
        "The file contains the launches of several processes.",
    ),
    "chrome.repeated_work": Kind(
        "warning",
        "Kernels, copies or fills are in the file more than once, with the same times. Each counts once.",
        _EXPORT_AGAIN,
        "Device events have the stream, name, times and correlation number of another one.",
    ),
    "chrome.lost_launch": Kind(
        "data_loss",
        "Launches and their work are missing: only the arrows between them are in the file.",
        _EXPORT_AGAIN,
        "Arrows of the category `ac2g` have ids that no event has as its correlation: events were taken out.",
    ),
    "chrome.no_launch": Kind(
        "info",
        "Device events without a launch in the file belong to no op: they were queued before the recording began, or "
        "their launches were lost.",
        "Synchronize the device before the recording begins.",
        "Device events have a correlation number that no launch has.",
    ),
    "chrome.unknown_device_work": Kind(
        "warning",
        "Events that may be work of an accelerator were not understood: {categories}. They are shown as other events, "
        "and no device time is known.",
        "Record with the profiler of torch for this device, which names its work kernel, gpu_memcpy or gpu_memset.",
        "No event is known device work, but events of unknown categories have a stream or belong to an accelerator.",
    ),
    "memory.no_size": Kind(
        "data_loss",
        "Allocations without a readable size were left out.",
        _EXPORT_AGAIN,
        "Memory events have no `Bytes`, or a value that is not a number.",
    ),
    # Memory snapshots.
    "snapshot.damaged_entries": Kind(
        "data_loss",
        "Entries in the history of {device} without an action, size or time were left out.",
        "Copy the snapshot again, or record it again.",
        "The history in a memory snapshot is damaged, or of an unknown version.",
    ),
    "snapshot.no_history": Kind(
        "info",
        "The snapshot has no history of {device}, only what was in use when it was taken.",
        "Record one with %%torchprof --snapshot.",
        "The snapshot was taken without `_record_memory_history()`.",
    ),
    "snapshot.no_times": Kind(
        "info",
        "The snapshot has no times. Its entries are shown one microsecond apart.",
        "Newer versions of torch record times.",
        "An older torch wrote the snapshot.",
    ),
    "snapshot.out_of_memory": Kind(
        "warning",
        "Out of memory on {device}: {place} requested {requested}{free}.",
        "The memory view shows how the memory filled up.",
        "An allocation failed while the history was recorded.",
    ),
    "snapshot.in_use": Kind(
        "info",
        "In use on {device} at the end: {total}, allocated {places}.",
        "report.snapshot.alive('end') lists every block, and report.snapshot.peak those at the peak.",
        "Blocks were still in use when the snapshot was taken. The message names who allocated most.",
    ),
    # Many ranks.
    "ranks.unreadable": Kind(
        "data_loss",
        "A file cannot be read. {error}",
        "The other ranks are shown without it.",
        "A file of a job is damaged, empty, missing or no trace, or the worker that read it failed.",
    ),
    "ranks.unfinished": Kind(
        "data_loss",
        "The recording ends in the middle: rank {ranks}. The complete part is shown.",
        "If the job still runs, load it again when it has written all.",
        "The file of a rank is cut off, as while it is being written.",
    ),
    "ranks.missing": Kind(
        "warning",
        "Loaded {there} of {world_size} ranks. Missing: rank {ranks}.",
        "Load the files of all ranks. Who waits for a missing rank is not known.",
        "The job has more ranks than there are files.",
    ),
    "ranks.doubled": Kind(
        "warning",
        "A rank has several files of one run; the one with the most events is shown. Left out: {files}.",
        "Keep one file for each rank.",
        "Two files say that they are of the same rank, at the same time.",
    ),
    "ranks.other_run": Kind(
        "warning",
        "Files of another run, or of another cycle of it, are left out: {files}.",
        "Load each run by itself.",
        "A file was recorded at another time than those of most ranks, or in a job of another size; or it does not say "
        "its rank, as others do.",
    ),
    "ranks.unnumbered": Kind(
        "warning",
        "Files do not say which rank wrote them, nor do their names. They are numbered in order.",
        "Put the rank into the name: rank3.json.gz.",
        "A trace has no `distributedInfo`, and its name has no number after the word rank or worker.",
    ),
    "ranks.no_collectives": Kind(
        "warning",
        "No collective was found that several ranks share, so who waits for whom is not known.",
        "Record complete steps of a job that communicates, the same ones on all ranks.",
        "The ranks recorded different steps, or none that communicates.",
    ),
    "ranks.unmatched": Kind(
        "info",
        "Collectives that not all ranks of their group have in the shared steps are left out.",
        "Record the same steps on all ranks.",
        "The ranks of a process group recorded different collectives in the same step.",
    ),
    "ranks.engine_lost": Kind(
        "data_loss",
        "An engine did not answer: {error}",
        "The other engines are shown without it.",
        "An engine of ipyparallel died, or failed, before its report was fetched.",
    ),
    "ranks.no_report": Kind(
        "warning",
        "Engines have no report: {engines}.",
        "Record on them first: %%px, and below it %%torchprof.",
        "Nothing was recorded on an engine of ipyparallel.",
    ),
    # Memory timelines.
    "graph.no_times": Kind(
        "info",
        "This is an execution trace: the ops and tensors of a run, without times.",
        "The page lists them in Ops, grouped by call and by tensor; in Python use report.graph_ops and graph_tensors.",
        "The file is an execution trace of `ExecutionTraceObserver`.",
    ),
    "graph.damaged": Kind(
        "data_loss",
        "Some nodes of the execution trace could not be read and are left out.",
        "Record it again if the graph must be complete.",
        "A node had no number or no name, had values of another type, or was there twice.",
    ),
    "compiled.no_names": Kind(
        "info",
        "Ops in compiled code belong to no line and no module of the model in {regions} of it, because it was compiled "
        "without names.",
        "Compile it in the recorded cell, or after %load_ext torchprof_magic or torchprof_magic.name_compiled_code().",
        "A function was compiled before the names of FX nodes were switched on.",
    ),
    "compiled.torch_has_no_names": Kind(
        "info",
        "Ops in compiled code belong to no line and no module of the model in {regions} of it, because torch {version} "
        "cannot name them.",
        "Use torch 2.10 or newer.",
        "A function was compiled by a torch that cannot mark the nodes of its graphs.",
    ),
    "compiled.no_kernels": Kind(
        "info",
        "{calls} of Inductor's code (`Call CompiledFxGraph`) show none of the kernels that it generated.",
        "Set torch._inductor.config.cpp.enable_kernel_profile = True before it is compiled. In a recorded cell, and "
        "after %load_ext torchprof_magic, that is so.",
        "Inductor generated code for the CPU that does not tell the profiler of its kernels.",
    ),
    "compiled.unknown_marks": Kind(
        "info",
        "The file marks nodes of compiled graphs by numbers. What they are is known only to the process that wrote it.",
        "Record the program with %%torchprof, and save the report: then they are in the file.",
        "A trace of another program was recorded with `enrich_profiler_metadata`.",
    ),
    "compile_log.no_run": Kind(
        "info",
        "This is a log of torch.compile: what was compiled, and why. The ops and steps of the program are not in it.",
        "Use report.compilations. To see what the compiled code does, record the program with %%torchprof.",
        "The file is a log that `TORCH_TRACE` had torch.compile write.",
    ),
    "compile_log.damaged": Kind(
        "data_loss",
        "Some records of the log of torch.compile could not be read and are left out.",
        "Write the log again if it must be complete.",
        "A line was no record, or its JSON was damaged.",
    ),
    "compile_log.too_many": Kind(
        "data_loss",
        "The log of torch.compile lists more than 10,000 compilations. The later ones are left out.",
        "Write a log of a shorter run.",
        "The log has more compilations than are read.",
    ),
    "timeline.below_zero": Kind(
        "warning",
        "More memory is released than was allocated: {size} were left out.",
        "Export the memory timeline again.",
        "A memory timeline is incomplete, or was written by another program.",
    ),
}
