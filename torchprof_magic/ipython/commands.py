"""The commands of ``%torchprof``, such as ``%torchprof last``."""

from __future__ import annotations

import ast
import builtins
import keyword
import shlex
import time
from contextlib import closing
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from torchprof_magic.capture import examine, prime, switch_off
from torchprof_magic.ipython.flags import FlagDefaults, checked_variable
from torchprof_magic.ipython.named_reports import LAST, named_report
from torchprof_magic.ipython.progress import ReadingBar
from torchprof_magic.jobs.load import load_ranks
from torchprof_magic.model.units import counted, format_file_size, format_ns, print_text, printable, printable_lines
from torchprof_magic.render.display import show
from torchprof_magic.report.opening import open_report
from torchprof_magic.run.archive import retry_uploads, upload_statuses
from torchprof_magic.runs import this_process
from torchprof_magic.runs.known import known_runs
from torchprof_magic.runs.run_library import KeptRun, RunLibrary
from torchprof_magic.runs.this_process import Entry
from torchprof_magic.store.trace_store import SavedTrace
from torchprof_magic.system.files.place import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.report.trace_report import Report

    Command = Callable[["Commands", list[str]], None]

HELP = """\
%%torchprof [flags]             at the top of a cell: record the cell; %%torchprof? lists the flags
%torchprof [flags] STATEMENT    record one statement
%torchprof last                 show the last report again
%torchprof load FILE [-o NAME]  open a trace (.json, .json.gz), a saved run or a memory snapshot (.pickle);
                                a folder or a pattern such as 'runs/*.json' opens the ranks of a job
%torchprof save FILE            save the last report with all its data (.torchprof)
%torchprof export FILE          export the last report as .json(.gz), .speedscope.json, .collapsed, .csv or .html
%torchprof compare A B          what changed from run A to B: last, a kept run, a variable or a file; A alone: to last
%torchprof history              list the runs of this kernel, and the kept ones
%torchprof history name A B     give a kept run another name; then it is kept until it is deleted
%torchprof history delete NAME  delete a kept run
%torchprof config               list the defaults of the flags
%torchprof doctor               check this machine and the last run for problems
%torchprof traces DIR           list the traces kept in a folder
%torchprof uploads [--retry]    list the uploads of this kernel, or retry the failed ones
%torchprof prime                prepare CUDA before 12.6 for recording CUDA graphs; run it before capturing them
%torchprof off                  stop a profiler that was left running
%torchprof help                 show this text"""


BAR_CHARS = 16
NO_RUN = "No run has been recorded in this kernel yet."


class Commands:
    """The commands of ``%torchprof``."""

    def __init__(self, shell: InteractiveShell, defaults: FlagDefaults) -> None:
        self._shell = shell
        self._defaults = defaults

    def holds_statement(self, line: str) -> bool:
        """Return whether a line holds flags and a statement, and no command, not even a mistyped one."""
        name = (line.split(maxsplit=1) or ["help"])[0]
        is_command = name.lstrip("-") in _COMMANDS and not _is_python(line, name)
        return not is_command and not self._is_mistyped(line, name)

    def run(self, line: str) -> bool:
        """Run the command of a line; return False when the line holds no command, but a statement.

        Raises ``UsageError`` for a command with wrong arguments, ``TorchProfError`` for one that fails, and
        ``ValueError`` for quotes that do not match.
        """
        name = (line.split(maxsplit=1) or ["help"])[0]
        command = _COMMANDS.get(name.lstrip("-"))
        if command is None or _is_python(line, name):
            if self._is_mistyped(line, name):
                raise UsageError(f"%torchprof {line.strip()}: neither a command nor a statement\n{HELP}")
            return False
        expanded: str = self._shell.var_expand(line, depth=3)  # type: ignore[no-untyped-call]
        command(self, shlex.split(expanded)[1:])
        return True

    def _is_mistyped(self, line: str, name: str) -> bool:
        """Return whether the line is an unknown command: its first word is undefined, and it is not an assignment."""
        if not name.isidentifier() or keyword.iskeyword(name) or name in self._shell.user_ns or hasattr(builtins, name):
            return False
        try:
            return isinstance(ast.parse(line.strip(), mode="eval").body, ast.Name)
        except SyntaxError:
            return "=" not in line

    def last(self, words: list[str]) -> None:
        """Show the last report again."""
        _take(words, "last")
        show(_last_report(), self._shell)

    def load(self, words: list[str]) -> None:
        """Open a file and show its report."""
        name = ""
        if len(words) == 3 and words[1] in ("-o", "--out"):  # noqa: PLR2004 - FILE -o NAME
            words, name = words[:1], words[2]
        (path,) = _take(words, "load", "FILE [-o NAME]", 1)
        name = checked_variable(name)
        place = place_of(path)
        if place.is_many:
            self._load_ranks(place, name)
            return
        with closing(ReadingBar()) as bar:
            report = open_report(place, bar)
        this_process.remember(report, name=place.name)
        if name:
            self._shell.user_ns[name] = report
        show(report, self._shell)

    def _load_ranks(self, place: Place, name: str) -> None:
        """Open the files of many ranks and show their report, which is not in the history of runs."""
        ranks = load_ranks(place)
        if name:
            self._shell.user_ns[name] = ranks
        show(ranks, self._shell)

    def save(self, words: list[str]) -> None:
        """Save the last report."""
        (path,) = _take(words, "save", "FILE", 1)
        _say(f"torchprof: written to {_last_report().save(path)}")

    def export(self, words: list[str]) -> None:
        """Write the last report for another program."""
        (path,) = _take(words, "export", "FILE", 1)
        _say(f"torchprof: written to {_last_report().export(path)}")

    def history(self, words: list[str]) -> None:
        """List the runs, or name or delete a kept one."""
        if words[:1] == ["delete"]:
            (name,) = _take(words[1:], "history delete", "NAME", 1)
            RunLibrary().delete(name)
            _say(f"Deleted the kept run {name}.")
        elif words[:1] == ["name"]:
            name, new = _take(words[1:], "history name", "NAME NEW_NAME", 2)
            RunLibrary().rename(name, new)
            _say(f"The run {name} is kept as {new}.")
        else:
            _take(words, "history", "no arguments, delete NAME or name NAME NEW_NAME")
            runs = [run.about for run in known_runs()]
            _list_runs([run for run in runs if isinstance(run, Entry)])
            _list_kept([run for run in runs if isinstance(run, KeptRun)])

    def compare(self, words: list[str]) -> None:
        """Show what changed from one run to another."""
        if len(words) == 1:
            words = [*words, LAST]
        before, after = _take(words, "compare", "A B, or A alone to compare with the last run", 2)
        first, second = (named_report(word, self._shell.user_ns) for word in (before, after))
        show(second.compare(first), self._shell)

    def config(self, words: list[str]) -> None:
        """List the defaults."""
        _take(words, "config")
        _say("Change a default with: %config TorchProfMagics.NAME = VALUE")
        traits = sorted(FlagDefaults.class_traits(config=True).items())
        width = max(len(name) for name, _ in traits)
        for name, trait in traits:
            value = getattr(self._defaults, name)
            _say(f"  {name:<{width}} {'-' if value is None else printable(repr(value)):<10} {trait.help}")

    def doctor(self, words: list[str]) -> None:
        """Check the machine and the last run."""
        _take(words, "doctor")
        for check in examine():
            _say(f"{'✓' if check.is_good else '▲'} {check.what}{f' {check.fix}' if check.fix else ''}")
        report = this_process.last()
        if report is None:
            _say(NO_RUN)
            return
        _say(printable(f"Last run, {report.trace.meta.title}: {report.verdict}"))
        for problem in report.problems:
            sign = "·" if problem.severity == "info" else "▲"
            _say(printable(f"{sign} {problem.message} {problem.fix}".rstrip()))

    def traces(self, words: list[str]) -> None:
        """List the traces of a folder."""
        (folder,) = _take(words, "traces", "DIR", 1)
        place = place_of(folder)
        if place.kind != "folder" or place.path is None:
            raise UsageError(f"{folder} is not a folder")
        kept = [run.about for run in known_runs(place.path) if isinstance(run.about, SavedTrace)]
        if not kept:
            _say(f"No kept traces in {folder}.")
        for trace in kept:
            at = f"{trace.timestamp:%Y-%m-%d %H:%M:%S}"
            where = f"cycle {trace.cycle}, step {trace.step}, rank {trace.rank}"
            _say(f"{at}  {trace.state:<9}  {format_file_size(trace.size_bytes):>8}  {where:<28}  {trace.path.name}")

    def uploads(self, words: list[str]) -> None:
        """List the uploads."""
        if words == ["--retry"]:
            _say(f"Retrying {counted(retry_uploads(), 'failed upload')}.")
            return
        _take(words, "uploads", "no arguments, or --retry")
        statuses = upload_statuses()
        if not statuses:
            _say(
                "This kernel has not uploaded any traces. Unfinished uploads of earlier kernels continue with the next "
                "run that has the same --trace-dir and --remote."
            )
        for status in statuses:
            _say(f"{status.path.name} to {status.remote}: {status}")

    def prime(self, words: list[str]) -> None:
        """Prepare CUDA for recording CUDA graphs."""
        _take(words, "prime")
        done = "CUDA graphs captured from now on can be recorded."
        _say(done if prime() else "Nothing to do: CUDA needs no preparation here, or is not available.")

    def off(self, words: list[str]) -> None:
        """Stop a running profiler."""
        _take(words, "off")
        _say("The running profiler was stopped." if switch_off() else "No profiler is running.")

    def help(self, words: list[str]) -> None:
        """List the commands."""
        _take(words, "help")
        _say(HELP)


_COMMANDS: dict[str, Command] = {
    name: getattr(Commands, name)
    for name in (
        "last",
        "load",
        "save",
        "export",
        "history",
        "compare",
        "config",
        "doctor",
        "traces",
        "uploads",
        "prime",
        "off",
        "help",
    )
}


def _is_python(line: str, name: str) -> bool:
    """Return whether the line is Python such as ``last = 5`` or ``help(x)``, and not a command."""
    rest = line[len(name) :].lstrip()
    return rest[:1] in ("=", ".", "[", "(", "+", ",", ";") and rest != "." and rest[:2] not in ("./", "..")


def _take(words: list[str], name: str, what: str = "no arguments", count: int = 0) -> list[str]:
    if len(words) != count or any(word.startswith("-") for word in words):
        quoted = " (put quotes around a name with spaces)" if count else ""
        raise UsageError(f"%torchprof {name} takes {what}{quoted}; %torchprof help lists the commands")
    return words


def _last_report() -> Report:
    report = this_process.last()
    if report is None:
        raise UsageError(NO_RUN)
    return report


def _list_runs(runs: list[Entry]) -> None:
    """Print the runs of this kernel with the step of each as a bar, all on one scale."""
    if not runs:
        _say(NO_RUN)
    longest = max((run.step_ns or 0 for run in runs), default=0)
    for number, run in enumerate(runs, 1):
        at = time.strftime("%H:%M:%S", time.localtime(run.unix_s))
        step = "no complete step" if run.step_ns is None else f"{format_ns(run.step_ns)} per step"
        line = f"{number:>3}  {at}  {printable(run.title):<24}  {step:>20}  {counted(run.events, 'event'):>18}"
        _say(f"{line}  {_bar(run.step_ns or 0, longest):<{BAR_CHARS}}  {run.change}".rstrip())


def _list_kept(runs: list[KeptRun]) -> None:
    """Print the kept runs of this and other kernels."""
    if runs:
        _say("Kept across kernels:")
    longest = max((run.step_ns or 0 for run in runs), default=0)
    for run in runs:
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.unix_s))
        step = "no complete step" if run.step_ns is None else f"{format_ns(run.step_ns)} per step"
        line = f"  {printable(run.name):<30}  {at}  {printable(run.title):<12}  {step:>20}"
        _say(f"{line}  {_bar(run.step_ns or 0, longest)}".rstrip())


def _bar(value: float, longest: float) -> str:
    """Return a number as a bar of characters, of at most ``BAR_CHARS``."""
    return "▇" * round(BAR_CHARS * value / longest) if longest > 0 else ""


def _say(text: str) -> None:
    print_text(printable_lines(text))
