"""The tools: questions about runs, each a method whose arguments and docstring are its schema."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal

import polars as pl

from torchprof_magic.agents.answers import (
    Picture,
    harmless,
    limited,
    rows_text,
    sections_of,
    with_note,
)
from torchprof_magic.agents.arguments import Bounds
from torchprof_magic.agents.errors import ToolError
from torchprof_magic.agents.open_runs import OpenRuns
from torchprof_magic.jobs import views as ranks_views
from torchprof_magic.jobs.report import RanksReport
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.shapes import Facts, Problems, count_rows
from torchprof_magic.model.units import counted, format_ns
from torchprof_magic.render.figures import FIGURES, to_png
from torchprof_magic.render.markdown import LEAST_TOKENS, MOST_TOKENS, code, prose, prose_about, source_code, table
from torchprof_magic.report import views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchprof_magic.agents.folders import Folders
    from torchprof_magic.agents.open_runs import AnyReport, Listed
    from torchprof_magic.render.view import View

MOST_ROWS = 200
MOST_TOKENS_OF_A_TOOL = 6_000
# So that sections that are asked for alone are whole.
_WHOLE = 8_000
_MOST_LINES = 400
_PATH_CHARS = 400
_SAID_CHARS = 300

Run = Annotated[
    str,
    "A file in the allowed folders, a folder with the files of the ranks of one job, the name of a kept run, or a "
    "number of list_runs such as #1.",
]
Rows = Annotated[int, "The most rows to return.", Bounds(1, MOST_ROWS)]
Tokens = Annotated[int, "The most tokens of the answer, about.", Bounds(LEAST_TOKENS, MOST_TOKENS_OF_A_TOOL)]


class Tools:
    """The tools over the runs of some folders and the kept runs. Answers are Markdown, but for pictures."""

    def __init__(self, folders: Folders) -> None:
        self._runs = OpenRuns(folders)

    @property
    def all(self) -> tuple[Callable[..., str | Picture], ...]:
        """The tools, in the order in which they are listed."""
        return (
            self.list_runs,
            self.open_file,
            self.summary,
            self.verdict,
            self.advice,
            self.list_tables,
            self.table,
            self.sql,
            self.lines,
            self.critical_path,
            self.what_if,
            self.compare,
            self.picture,
        )

    def list_runs(self) -> str:
        """List the traces and saved runs in the allowed folders and the kept runs, the newest first.

        The number of a run, such as #1, can be given to the other tools in place of its path or name.
        """
        rows = [(f"#{number}", *_listed_cells(run)) for number, run in enumerate(self._runs.listed(), 1)]
        folders = "The folders that may be read: " + ", ".join(
            code(str(path), _PATH_CHARS) for path in self._runs.folders.paths
        )
        listed = table(("Run", "File or name", "When", "Typical step"), rows, numbers=range(3, 4))
        return with_note("\n".join(listed) if rows else "No runs.", folders)

    def open_file(self, run: Run) -> str:
        """Open a trace, a saved run, a memory snapshot or a folder of ranks, and say what it holds.

        Answers with what was recorded, on what machine, what is not known, and which tables there are.
        """
        report = self._runs.report(run)
        summary = report.summary("markdown", max_tokens=_WHOLE)
        head = summary.split("\n## ", 1)[0].rstrip()
        tables = f"Tables of list_tables, table and sql: {', '.join(_tables(report))}."
        return limited("\n\n".join([head, tables, sections_of(summary, "What is not known")]).rstrip())

    def summary(self, run: Run, max_tokens: Tokens = MOST_TOKENS) -> str:
        """Return the whole summary of a run: verdict, advice, steps, lines, ops, waits, memory, and what is not known.

        The best first question. What does not fit is counted, and other tools say more of it.
        """
        return limited(self._runs.report(run).summary("markdown", max_tokens=max_tokens))

    def verdict(self, run: Run) -> str:
        """Say what limits the speed of the program, with the evidence, the line, and what makes that doubtful."""
        return with_note(self._sections(run, "Verdict", "Steps", "Step"))

    def advice(self, run: Run) -> str:
        """Say what to change, the largest saving first: the line, the change as a diff, what it saves, and how sure."""
        return with_note(self._sections(run, "What to change") or "There is no advice for this run.")

    def list_tables(
        self,
        run: Run,
        name: Annotated[str, "A table, whose columns are listed with units and definitions; all tables without."] = "",
    ) -> str:
        """List the tables of a run, or the columns of one of them with units and exact definitions."""
        known = _tables(self._runs.report(run))
        if not name:
            rows = [(f"`{each}`", _cell(view.sentence)) for each, view in known.items()]
            return limited("\n".join(table(("Table", "What it has"), rows, numbers=range(0))))
        view = _known(known, name)
        columns = [(f"`{each.name}`", each.unit, _cell(each.definition)) for each in view.columns]
        listed = "\n".join(table(("Column", "Unit", "Definition"), columns, numbers=range(0)))
        return limited("\n\n".join(filter(None, (view.sentence, view.details, listed if columns else ""))))

    def table(
        self,
        run: Run,
        name: Annotated[str, "A table of list_tables, such as ops."],
        columns: Annotated[list[str], "The columns to return; all by default."] = [],  # noqa: B006 - never changed
        filter: Annotated[str, "A condition as in SQL, such as self_cpu_ns > 1000000 AND name LIKE 'aten::%'."] = "",  # noqa: A002
        order_by: Annotated[str, "A column to sort by; by default the order of the table."] = "",
        descending: Annotated[bool, "Whether the largest come first, with order_by."] = True,
        rows: Rows = 20,
        offset: Annotated[int, "How many rows to skip.", Bounds(0, 1_000_000_000)] = 0,
    ) -> str:
        """Return rows of a table. Times are in ns, memory in bytes, over all recorded steps together."""
        report = self._runs.report(run)
        _known(_tables(report), name)
        there = _asked(report, f"SELECT * FROM {name} LIMIT 0").columns  # noqa: S608 - see _asked
        unknown = [each for each in (*columns, *_given(order_by)) if each not in there]
        if unknown:
            raise ToolError(f"{name} has no column {unknown[0]!r}; its columns are: {', '.join(there)}")
        condition = f" WHERE (\n{filter}\n)" if filter.strip() else ""
        found = _asked(report, f"SELECT * FROM {name}{condition}")  # noqa: S608 - see _asked
        if order_by:
            found = found.sort(order_by, descending=descending, nulls_last=True, maintain_order=True)
        shown = found.slice(offset, rows).select(columns or there)
        return with_note(rows_text(shown, first=offset, total=found.height))

    def sql(
        self,
        run: Run,
        query: Annotated[str, "A SELECT over the tables of list_tables. Queries can only read, and only these."],
        rows: Rows = 20,
    ) -> str:
        """Return the result of a SQL query over the tables of a run, such as SELECT name, calls FROM ops."""
        found = _asked(self._runs.report(run), query)
        return with_note(rows_text(found.head(rows), total=found.height))

    def lines(
        self,
        run: Run,
        file: Annotated[
            str, "A file of the program as the recording names it, or the end of its path; all without."
        ] = "",
        first: Annotated[int, "The first line.", Bounds(1, 10_000_000)] = 1,
        last: Annotated[int, "The last line.", Bounds(1, 10_000_000)] = 10_000_000,
    ) -> str:
        """Return the lines of a file of the program that did something, with source text and costs.

        Costs are over all recorded steps together. The text is that of the recording; no file of the program is read.
        """
        frame = self._runs.recording(run).sql("SELECT * FROM lines ORDER BY file, line")
        files = frame["file"].unique(maintain_order=True).to_list()
        if not file:
            costs = [name for name in frame.columns if name.endswith("_ns")]
            sums = frame.group_by("file", maintain_order=True).agg(pl.len().alias("lines"), pl.col(costs).sum())
            return with_note(rows_text(sums.head(MOST_ROWS), total=sums.height))
        return with_note(_lines_text(frame, _one_file(files, file), first, last))

    def critical_path(self, run: Run, rows: Rows = 20) -> str:
        """Say what decided how long the steps took, the most time first, summed over the recorded steps.

        What is not on the path can become faster, and a step takes as long as before. The table critical_path has the
        pieces in order.
        """
        path = self._runs.recording(run).critical_path
        ns, whole_ns = pl.col("dur_ns").sum(), max(int(path["dur_ns"].sum()), 1)
        name = pl.col("name").cast(pl.String).str.replace("^ProfilerStep#[0-9]+$", "ProfilerStep")
        parts = path.group_by(name, pl.col("category").cast(pl.String)).agg(pl.len().alias("pieces"), ns)
        parts = parts.with_columns((pl.col("dur_ns") / whole_ns).alias("share"))
        shown = parts.sort("dur_ns", "name", descending=[True, False]).head(rows)
        return with_note(rows_text(shown, total=parts.height))

    def what_if(
        self,
        run: Run,
        faster: Annotated[
            list[str],
            "What would be faster: ops, kernels, modules, file:line, a phase such as data, or a device such as cuda:0.",
        ] = [],  # noqa: B006 - never changed
        times: Annotated[float, "How many times as fast that would be.", Bounds(1, 1_000_000)] = 2,
        without: Annotated[list[str], "What would be gone, given in the same way."] = [],  # noqa: B006 - never changed
        no_sync: Annotated[bool, "Whether no call would wait for a device."] = False,
        graphs: Annotated[bool, "Whether device work would be launched as graphs, with one launch in a step."] = False,
        workers: Annotated[int, "So many processes would load the data; 0 for as it is.", Bounds(0, 1_024)] = 0,
        overlap: Annotated[bool, "Whether communication would run beside all other work."] = False,
        batch: Annotated[float, "A batch would be so many times as large.", Bounds(0, 1_000_000)] = 1,
    ) -> str:
        """Say what a step would take if something were faster or gone, between what bounds, and what limits it then.

        The answer replays a graph of what waits for what, made from the recording; it says what it rests on.
        """
        report = self._runs.recording(run)
        try:
            found = report.what_if(
                faster=dict.fromkeys(faster, times),
                without=without,
                no_sync=no_sync,
                graphs=graphs,
                workers=workers or None,
                overlap="communication" if overlap else None,
                batch=None if batch == 1 else batch,
            )
        except OptionsError as exc:
            raise ToolError(_without_names(str(exc))) from exc
        first, *rest = str(found).splitlines()
        change = prose_about(found.change, (*faster, *without))
        return with_note("\n".join([f"{change}{first.removeprefix(found.change)}", *map(prose, rest)]))

    def compare(
        self,
        run: Run,
        base: Annotated[str, "The run before, given in the same way."],
        max_tokens: Tokens = MOST_TOKENS,
    ) -> str:
        """Say what changed from the run base to another run, and how sure that is: steps, ops, lines, memory."""
        changed = self._runs.recording(run).compare(self._runs.recording(base))
        return limited(changed.summary("markdown", max_tokens=max_tokens))

    def picture(
        self,
        run: Run,
        view: Annotated[Literal["steps", "ops", "flame", "memory", "roofline"], "What to draw; flame: a flame graph."],
    ) -> Picture:
        """Return an image of a view of a run: its steps, top ops, flame graph, memory over time, or roofline."""
        report = self._runs.recording(run)
        known = next(each for each in views.TABS if each.name == view)
        shape = known.shape(report.as_analysed)
        if isinstance(shape, (Facts, Problems)) or count_rows(shape) == 0:
            raise ToolError(known.empty)
        png = to_png(FIGURES[view](harmless(shape)))
        return Picture(png, with_note(f"The view {known.title or view} of the run."))

    def _sections(self, run: str, *titles: str) -> str:
        return sections_of(self._runs.report(run).summary("markdown", max_tokens=_WHOLE), *titles)


def _given(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _tables(report: AnyReport) -> Mapping[str, View[object]]:
    return ranks_views.TABLES if isinstance(report, RanksReport) else views.TABLES  # type: ignore[return-value]


def _known(known: Mapping[str, View[object]], name: str) -> View[object]:
    if name not in known:
        raise ToolError(f"there is no table {name[:100]!r}; the tables are: {', '.join(known)}")
    return known[name]


def _asked(report: AnyReport, query: str) -> pl.DataFrame:
    """Return the result of a query, which can only read; what the engine says of it may quote names, so it is code."""
    try:
        return report.sql(query)
    except ValueError as exc:
        if exc.__cause__ is None:
            raise
        said, _, known = str(exc).partition("\n")
        raise ToolError(f"The query failed: {code(said, _SAID_CHARS)}\n{known}") from exc


def _without_names(message: str) -> str:
    """Return what is wrong with a change, without the names of the recording that come close to what was meant."""
    said, was, _ = message.partition(" was recorded")
    if not was or not said.startswith("nothing called"):
        return message
    return f"{said}{was}; name an op, a kernel, a module, file:line, a device or a phase, as the tables do"


def _listed_cells(run: Listed) -> tuple[str, str, str]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.unix_s))
    return code(run.title, _PATH_CHARS, in_table=True), when, "–" if run.step_ns is None else format_ns(run.step_ns)


def _cell(text: str) -> str:
    """Return one of our own sentences for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _one_file(files: list[str], wanted: str) -> str:
    found = [each for each in files if each == wanted] or [each for each in files if each.endswith(wanted)]
    if len(found) != 1:
        why = "is not a file of this recording" if not found else f"is the end of {counted(len(found), 'path')}"
        named = ", ".join(code(each, 120) for each in (found or files)[:20]) or "none"
        raise ToolError(f"{wanted[:200]!r} {why}; the files are: {named}")
    return found[0]


def _lines_text(frame: pl.DataFrame, file: str, first: int, last: int) -> str:
    numbers = [name for name in frame.columns if name.endswith(("_ns", "bytes"))]
    rows = frame.filter((frame["file"] == file) & frame["line"].is_between(first, last))
    kept = [name for name in numbers if bool((rows[name].fill_null(0) != 0).any())]
    cells = [
        (str(row["line"]), source_code(row["source"] or "", in_table=True), *(str(row[name]) for name in kept))
        for row in rows.head(_MOST_LINES).iter_rows(named=True)
    ]
    if not cells:
        return f"No line of {code(file)} from {first} to {last} did anything."
    listed = table(("Line", "Source", *kept), cells, numbers=range(2, 2 + len(kept)))
    more = rows.height - len(cells)
    return "\n".join(
        [code(file, _PATH_CHARS), "", *listed, *((f"\nand {counted(more, 'more line')}",) if more else ())]
    )
