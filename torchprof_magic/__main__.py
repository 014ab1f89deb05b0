"""The command line ``python -m torchprof_magic``: of a trace a summary, a file or a query; a check; a server."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torchprof_magic
from torchprof_magic.model.errors import ExportError, TorchProfError
from torchprof_magic.model.units import print_text, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.report.trace_report import Report

_INTERRUPTED = 130  # the exit status that shells use for Ctrl-C
_CHECK, _MCP = "check", "mcp"
# 2 is that of wrong arguments, as everywhere.
_STATUSES = {"passed": 0, "failed": 1, "unclear": 3}
_UNREADABLE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Of a trace it is 0, or 1 when a file cannot be read or written. Of a check of limits it is 0 if all are kept, 1 if
    one is broken, 3 if that is unclear, and 4 when a file cannot be read or written. Wrong arguments are 2.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = given[0] if given[:1] in ([_CHECK], [_MCP]) else ""
    is_check = command == _CHECK
    parser = _check_parser() if is_check else _mcp_parser() if command else _parser()
    parsed = parser.parse_args(given[1:] if command else given)
    status = 0
    try:
        if is_check:
            status = _check(parsed)
        elif command:
            _serve(parsed)
        else:
            _run(parsed)
        sys.stdout.flush()
    except (TorchProfError, ValueError, ImportError) as exc:  # polars may not fit into a limit of memory
        print_text(printable_lines(f"{parser.prog}: error: {exc}"), file=sys.stderr)
        return _UNREADABLE if is_check else 1
    except BrokenPipeError:  # `| head` closed the pipe; Python must not write to it at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchprof_magic",
        description="Open a PyTorch profiler trace and print its summary, write it as one interactive HTML file, or "
        "query it with SQL.",
        epilog="Example: python -m torchprof_magic trace.json.gz -o report.html. Other commands are 'check', a gate "
        "for continuous integration, and 'mcp', a server for programs; each has a --help of its own.",
    )
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="a trace (.json, .json.gz), a saved run (.torchprof) or a memory snapshot (.pickle); a path or a URL",
    )
    parser.add_argument(
        "--capture",
        action="append",
        metavar="FILE",
        help="a recording of the capture of the CUDA graphs that TRACE replays, or a folder of some; can be repeated",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write a file; its ending chooses the format: .html, .json, .json.gz, .torchprof, .csv, .collapsed or "
        ".speedscope.json",
    )
    parser.add_argument("--sql", metavar="QUERY", help="print the result of a query, such as 'SELECT * FROM ops'")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--summary", action="store_true", help="print the summary as text; the default without -o or --sql"
    )
    how.add_argument("--json", action="store_true", help="print the summary, or the rows of the query, as JSON")
    how.add_argument(
        "--markdown",
        action="store_true",
        help="print the summary as Markdown, for colleagues and for programs that write code",
    )
    parser.add_argument(
        "--max-tokens", metavar="N", type=int, help="let the Markdown have at most about N tokens (default: 2000)"
    )
    return parser


def _check_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m torchprof_magic {_CHECK}",
        description="Check whether a run keeps to limits. The exit status is 0 if it does, 1 if it breaks one, 3 if "
        "that is unclear, because a difference may be chance, and 4 when a file cannot be read or written.",
        epilog="Example: python -m torchprof_magic check new.torchprof --against base.torchprof --max-step +5% "
        "--max-peak 2GB --no sync --junit profile.xml",
    )
    run = "a trace, a saved run (.torchprof), or the name of a kept run"
    parser.add_argument("run", metavar="RUN", help=run)
    parser.add_argument("--against", metavar="BASE", help=f"compare with another run: {run}")
    parser.add_argument(
        "--max-step",
        metavar="TIME",
        help="the longest typical step: 50ms, or +5%% of that of BASE (default: not slower by more than chance)",
    )
    parser.add_argument(
        "--max-peak", metavar="SIZE", help="the highest peak of memory on any device: 2GB, or +10%% of that of BASE"
    )
    parser.add_argument(
        "--no",
        metavar="NAME",
        action="append",
        default=[],
        help="an op or a range that must not run, such as aten::item; or a kind of blocking call: sync, alloc, init, "
        "copy, 'slow launch' or 'queue full'; may be repeated",
    )
    parser.add_argument("--junit", metavar="FILE", help="write the result as JUnit XML, for continuous integration")
    parser.add_argument("--markdown", metavar="FILE", help="write the result as Markdown, for a pull request")
    return parser


def _mcp_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m torchprof_magic {_MCP}",
        description="Answer questions about recordings as a server of the Model Context Protocol (MCP) on standard "
        "input and output, which a client starts. It needs the package mcp: pip install 'torchprof-magic[mcp]'",
        epilog="Example: python -m torchprof_magic mcp ~/traces",
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="*",
        default=["."],
        help="a folder whose traces may be read (default: the current one); nothing else is, but for kept runs",
    )
    return parser


def _serve(parsed: argparse.Namespace) -> None:
    from torchprof_magic.agents.server import serve  # noqa: PLC0415 - polars may not fit into a limit of memory

    serve(parsed.folder)


def _check(parsed: argparse.Namespace) -> int:
    """Print whether the run keeps to its limits, and return the exit status."""
    from torchprof_magic.report.opening import named_report  # noqa: PLC0415 - polars may not fit into a limit of memory

    report = named_report(parsed.run)
    check = report.check(max_step=parsed.max_step, max_peak=parsed.max_peak, no=parsed.no, against=parsed.against)
    check = replace(check, title=Path(parsed.run).name)
    for path, text in ((parsed.junit, check.junit), (parsed.markdown, check.markdown)):
        if path is not None:
            try:
                Path(path).write_text(text(), encoding="utf-8")
            except OSError as exc:
                raise ExportError(f"{path}: it cannot be written ({exc.strerror or exc})") from exc
    print_text(str(check))
    return _STATUSES[check.status]


def _run(parsed: argparse.Namespace) -> None:
    report = torchprof_magic.load(parsed.trace, capture=parsed.capture)
    if parsed.output:
        path = report.export(parsed.output)
        print_text(printable(f"Wrote {path}"), file=sys.stderr)
    if parsed.sql:
        print_text(_answer(report, parsed.sql, is_json=parsed.json))
    if parsed.summary or parsed.markdown or (not parsed.sql and (parsed.json or not parsed.output)):
        form: Literal["text", "markdown", "json"]
        form = "markdown" if parsed.markdown else "json" if parsed.json else "text"
        limit = {} if parsed.max_tokens is None else {"max_tokens": parsed.max_tokens}
        print_text(report.summary(form, **limit))


def _answer(report: Report, query: str, *, is_json: bool) -> str:
    import polars as pl  # noqa: PLC0415 - imported by then, if it fits into memory

    frame = report.sql(os.fsencode(query).decode(errors="replace"))  # as the shell wrote it, whatever the locale
    if is_json:
        return json.dumps(frame.to_dicts(), default=str)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=100, tbl_width_chars=200):
        return printable_lines(str(frame))


if __name__ == "__main__":
    sys.exit(main())
