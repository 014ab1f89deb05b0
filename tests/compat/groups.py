"""Runs groups of cells, each in a kernel of its own, and compares what they do with what they must do."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import cells_of_files
import cells_of_magics
import cells_of_profile
import pytest
from case import ASKED, BEFORE_TORCH, BY_CHOICE, BY_LOAD, COMPARED, FIRST_TORCH, LOAD, ONLY_IN_TORCH, PRELUDE, Case
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from kernels import Kernel, environment
from results import OK, REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels import Cell

GROUPS: dict[str, tuple[Case, ...]] = {
    "magics": cells_of_magics.PLAIN,
    "flags": cells_of_magics.FLAGS,
    "cells": cells_of_magics.RUNNING,
    "profile()": cells_of_profile.PROFILE,
    "drop-in": cells_of_profile.DROP_IN,
    "files": cells_of_files.FILES,
}
STATE = "state afterwards"
START_S = 120
# Saved with torch 2.13 and polars 2.1; the same loop as in the other cells, with --memory --shapes.
SAVED = Path(__file__).with_name("by_polars_2.torchprof")
KERNEL = """{{"argv": ["{python}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],
"display_name": "compat", "language": "python"}}"""


class Unexpected(Exception):  # noqa: N818 - what a cell did is no error of this program
    """A cell did something else; the text says what."""


def run_group(python: Path, cases: tuple[Case, ...], torch: str) -> dict[str, str]:
    """Run cells in a kernel of this Python, and return the outcome of each, and of the comparison of the state."""
    outcomes: dict[str, str] = {}
    with kernel_of(python) as kernel:
        kernel.run(PRELUDE)
        expect(kernel.run(LOAD), Case(name="load", code=""))
        for number, case in enumerate(cases, 1):
            try:
                outcomes[case.name] = run_case(kernel, case, torch)
            except Unexpected as exc:
                outcomes[case.name] = str(exc)
            except pytest.fail.Exception as exc:
                outcomes[case.name] = str(exc)[:1500]  # the kernel is dead or hangs
                return outcomes | run_group(python, cases[number:], torch)
        outcomes[STATE] = kernel.run(COMPARED).text.strip().replace("as before", OK)
    return outcomes


def run_case(kernel: Kernel, case: Case, torch: str) -> str:
    """Run a cell and its assertions. Returns how it went; raises ``Unexpected``."""
    cell = kernel.run(case.code, interrupt_at=case.interrupt_at)
    if case.needs and version_of(torch) < FIRST_TORCH[case.needs]:
        refused = rf"torch {re.escape(torch)}\S* does not support {case.needs}\."
        if not re.match(refused, cell.reply.get("evalue", "")):
            raise Unexpected(f"was not refused: {cell.reply}"[:1500])
        return f"{REFUSED} ({case.needs})"
    expect(cell, case)
    found = kernel.run(ASKED).text.split()
    if case.shows_report or case.then:
        ignored = {
            *BY_LOAD,
            *BY_CHOICE,
            *(code for code, release in ONLY_IN_TORCH.items() if release == version_of(torch)),
            *(code for code, release in BEFORE_TORCH.items() if version_of(torch) < release),
        }
        odd = sorted({code for code in found if code not in ignored - set(case.problems)} ^ set(case.problems))
        if odd:
            said = kernel.run("print(*(problem.message for problem in last.problems), sep='; ')").text
            raise Unexpected(f"problems {found}, expected {list(case.problems)}: {said}"[:1500])
    then = kernel.run(case.then)
    if then.reply["status"] != "ok":
        raise Unexpected(f"{then.reply['ename']}: {then.reply['evalue']}"[:1500])
    return OK


def expect(cell: Cell, case: Case) -> None:
    """Compare everything that a cell did with what it must do."""
    error = f"{cell.reply.get('ename', '')}: {cell.reply.get('evalue', '')}" if cell.reply["status"] != "ok" else ""
    if not error.startswith(case.error) or (error and not case.error):
        raise Unexpected(f"ended with {error or 'no error'}"[:1500])
    written = {name: "".join(part["text"] for part in cell.of("stream") if part["name"] == name) for name in STREAMS}
    if not re.fullmatch(case.stderr, written["stderr"]):
        raise Unexpected(f"wrote to stderr: {written['stderr'][:1500]!r}")
    if not re.fullmatch(case.prints, written["stdout"]):
        raise Unexpected(f"printed {written['stdout'][:1500]!r}")
    if cell.values != ([case.value] if case.value else []):
        raise Unexpected(f"has the value {cell.values}")
    if len(cell.static) != case.shows_report:
        raise Unexpected(f"showed {len(cell.static)} reports")


STREAMS = ("stdout", "stderr")


def version_of(torch: str) -> tuple[int, ...]:
    """Return the release of torch as numbers: (2, 13)."""
    return tuple(map(int, torch.split(".")[:2]))


@contextmanager
def kernel_of(python: Path) -> Iterator[Kernel]:
    """Start ipykernel in an environment, with a home directory of its own and without this checkout on its path."""
    with tempfile.TemporaryDirectory(prefix="torchprof-compat-", ignore_cleanup_errors=True) as folder:
        spec = Path(folder) / "kernels" / "compat"
        spec.mkdir(parents=True)
        (spec / "kernel.json").write_text(KERNEL.format(python=python))
        shutil.copy(SAVED, folder)
        specs = KernelSpecManager(kernel_dirs=[str(spec.parent)])
        manager = KernelManager(kernel_name="compat", kernel_spec_manager=specs)
        env = {name: value for name, value in environment().items() if not name.startswith(("PYTHON", "TORCHPROF_"))}
        manager.start_kernel(env=env | {"HOME": folder, "TMPDIR": folder}, cwd=folder, stderr=subprocess.DEVNULL)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=START_S)
            yield Kernel(manager, client, Path(folder) / "stacks.txt")
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
