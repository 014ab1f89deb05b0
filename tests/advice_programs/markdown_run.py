"""Runs programs with something to change, and looks for cause, line and change in the Markdown of their reports alone.

    python tests/advice_programs/markdown_run.py [--programs 24]

No model is asked: the cause is the title of the card, the line is that of the cell or of the function that it calls,
and the change is a word that a reader needs to make it, written down here by hand for each rule.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from advice_run import line_of, run
from advised import PROGRAMS

if TYPE_CHECKING:
    from advised import Program

# What has to be written to carry the advice of a rule out.
WORDS = {
    "single_tensor_optimizer": r"fused=True",
    "dataloader_workers": r"num_workers=[0-9]",
    "sleeping": r"remove the `?sleep|wait for what it waits for",
    "python_loop": r"all of the tensor|whole tensor|`torch\.|one op|at once",
    "rebuilt_constant": r"register_buffer|before the loop",
    "repeated_copy": r"before the loop|once",
    "zero_grad_set_to_none": r"set_to_none=True",
    "bias_before_batchnorm": r"bias=False",
    "autocast": r"torch\.autocast\(",
    "channels_last": r"memory_format=torch\.channels_last",
    "recompiles": r"dynamic=True|mark_dynamic|pad",
    "graph_breaks": r"out of the compiled function",
    "attention_unfused": r"scaled_dot_product_attention\(",
    "oversubscribed_threads": r"set_num_threads\([0-9]",
    "undersubscribed_threads": r"set_num_threads\([0-9]",
    "gradient_sync_each_step": r"no_sync\(\)",
    "many_small_collectives": r"one flat tensor|DistributedDataParallel",
    "memory_leak": r"\.detach\(\)|\.item\(\)|bound or empty",
    "checkpoint": r"checkpoint\(",
    "profiling_distorts": r"--preset quick|--active|[Ll]ess",
}


class Read(NamedTuple):
    """What the text of a program says: the cause, the line, and the change."""

    cause: bool
    line: bool
    change: bool


def read(program: Program) -> Read:
    """Run a program and read the Markdown of its report."""
    found = run(program)
    text = found.report.summary("markdown")
    section = re.search(r"^## What to change\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    advice = next((each for each in found.report.advice if each.rule == program.rule), None)
    if section is None or advice is None:
        return Read(cause=False, line=False, change=False)
    said = section[1]
    wanted = [line_of(part) for part in (program.setup.lstrip("\n"), found.cell) if line_of(part)]
    has_line = not wanted or any(re.search(rf"\bline {number}\b|^   \W* {number}\b", said) for number in wanted)
    has_change = bool(re.search(WORDS[program.rule], said))
    return Read(cause=advice.title in said, line=has_line, change=has_change)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=24)
    chosen = parser.parse_args()
    trues = [program for program in PROGRAMS if not program.is_miss]
    # First one of each rule, then the others.
    rules: dict[str, int] = {}
    order = []
    for program in trues:
        rules[program.rule] = rules.get(program.rule, 0) + 1
        order.append((rules[program.rule], len(order), program))
    whole = 0
    picked = [program for *_, program in sorted(order, key=lambda each: each[:2])][: chosen.programs]
    for program in picked:
        try:
            told = read(program)
        except Exception as exc:  # noqa: BLE001 - the other programs run nevertheless
            print(f"{program.rule:<26} {program.name}: {type(exc).__name__}: {exc}")
            continue
        whole += all(told)
        marks = "  ".join(f"{name} {'yes' if is_told else 'NO '}" for name, is_told in told._asdict().items())
        print(f"{program.rule:<26} {marks}  {program.name}")
        sys.stdout.flush()
    print(f"{whole} of {len(picked)} programs: cause, line and change are in the Markdown")
    return int(whole < len(picked) - len(picked) // 12)


if __name__ == "__main__":
    sys.exit(main())
