"""The command line ``python -m torchprof_magic TRACE``: prints a summary, writes a file or runs a query."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

import torchprof_magic
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.units import print_text, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.report.trace_report import Report

_INTERRUPTED = 130  # the exit status that shells use for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 1 when a file cannot be read or written."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    try:
        _run(parsed)
        sys.stdout.flush()
    except (TorchProfError, ValueError, ImportError) as exc:  # polars may not fit into a limit of memory
        print_text(printable_lines(f"{parser.prog}: error: {exc}"), file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` closed the pipe; Python must not write to it at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchprof_magic",
        description="Open a PyTorch profiler trace and print its summary, write it as one interactive HTML file, or "
        "query it with SQL.",
        epilog="Example: python -m torchprof_magic trace.json.gz -o report.html",
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
    return parser


def _run(parsed: argparse.Namespace) -> None:
    report = torchprof_magic.load(parsed.trace, capture=parsed.capture)
    if parsed.output:
        path = report.export(parsed.output)
        print_text(printable(f"Wrote {path}"), file=sys.stderr)
    if parsed.sql:
        print_text(_answer(report, parsed.sql, is_json=parsed.json))
    if parsed.summary or (not parsed.sql and (parsed.json or not parsed.output)):
        print_text(report.summary("json" if parsed.json else "text"))


def _answer(report: Report, query: str, *, is_json: bool) -> str:
    import polars as pl  # noqa: PLC0415 - imported by then, if it fits into memory

    frame = report.sql(os.fsencode(query).decode(errors="replace"))  # as the shell wrote it, whatever the locale
    if is_json:
        return json.dumps(frame.to_dicts(), default=str)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=100, tbl_width_chars=200):
        return printable_lines(str(frame))


if __name__ == "__main__":
    sys.exit(main())
