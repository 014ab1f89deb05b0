"""Choosing, before a cell runs, what ends its steps.

Where the text and the functions that it calls do not tell which loop that is, several are candidates, and the first
iterations decide (``choosing``).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.run.stepping.signs import DEFERRED, Names, Reader, Signs, dotted, walks_over_a_model
from torchprof_magic.system.process.lookups import attributes_of, is_a, module_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
OUR_MODULE = __name__.partition(".")[0]
WAYS = ("auto", "loop", "optimizer", "cell", "manual")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopOfCell:
    """A loop that runs where it is written: the loops around it, innermost first, and what its own code does."""

    loop: Loop
    around: tuple[LoopOfCell, ...]
    code: str
    signs: Signs

    @property
    def line(self) -> int:
        """The line on which it begins."""
        return self.loop.lineno

    @property
    def nest(self) -> Loop:
        """The outermost loop around it, or itself."""
        return self.around[-1].loop if self.around else self.loop

    @property
    def stepping(self) -> Stepping:
        """This loop as the report shows it, if it makes the steps."""
        return Stepping(how="loop", line=self.line, code=self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What ends a step.

    Attributes:
        how: ``loop``, ``optimizer``, ``cell`` or ``manual``.
        chosen: The loop that makes the steps, as far as is known; the best guess among ``candidates``.
        candidates: Loops of which the first iterations decide; empty if ``chosen`` is certain.
        starts_late: The recording begins when the loop is entered, so that code before it is not in the trace.
        is_checked: Whether steps of optimizers outside of the loop are to be noted: its code shows none.
    """

    how: str
    chosen: LoopOfCell | None = None
    candidates: tuple[LoopOfCell, ...] = field(default=())
    starts_late: bool = False
    is_checked: bool = False

    @property
    def loop(self) -> Loop | None:
        """The loop that makes the steps."""
        return self.chosen.loop if self.chosen is not None else None

    @property
    def line(self) -> int | None:
        """The line of that loop."""
        return self.chosen.line if self.chosen is not None else None

    @property
    def code(self) -> str:
        """The text of that line."""
        return self.chosen.code if self.chosen is not None else ""

    @property
    def stepping(self) -> Stepping:
        """The plan as the report shows it."""
        return Stepping(how=self.how) if self.chosen is None else self.chosen.stepping


def loops_around(plan: StepPlan) -> tuple[LoopOfCell, ...]:
    """Return the loops around those that may make the steps, without these."""
    stepping = plan.candidates or ((plan.chosen,) if plan.chosen is not None else ())
    return tuple(dict.fromkeys(outer for loop in stepping for outer in loop.around if outer not in stepping))


def plan_steps(
    tree: ast.Module, source_lines: Sequence[str], namespace: Mapping[str, object], wanted: str = "auto"
) -> StepPlan:
    """Choose what ends a step: calls of ours, a loop of the cell, steps of an optimizer, or the end of the cell.

    Of several loops it is the one whose own code steps an optimizer, also in a function that it calls; else the one
    that calls ``backward()``; else the one that calls a model; else one that runs ops of torch, or may. A loop that
    does nothing of that, or walks over the parts of a model, makes no steps.

    ``wanted`` is the value of ``--step``: ``auto``, ``manual``, ``loop``, ``optimizer``, ``cell`` or ``line:N``.
    ``source_lines`` are the lines that ``tree`` was parsed from, from line 1.
    """
    if wanted not in WAYS and not wanted.startswith("line:"):
        raise OptionsError(f"--step {wanted}: choose one of {', '.join(WAYS)} or line:N")
    if wanted in ("cell", "optimizer"):
        return StepPlan(how=wanted)
    reader = Reader(Names.of_cell(tree, namespace))
    loops = list(_loops(tree.body, (), reader, source_lines))
    if wanted.startswith("line:"):
        return StepPlan(how="loop", chosen=_loop_at(loops, wanted), starts_late=True)
    calls = _our_calls(tree, namespace)
    if calls if wanted == "auto" else wanted == "manual":
        return StepPlan(how="manual", starts_late="steps" in calls)
    if wanted == "loop" and not loops:
        raise OptionsError("--step loop: the cell contains no loop. Use --step optimizer or --step cell.")
    chosen = _of_loops(loops, takes_any=wanted == "loop")
    if chosen is not None:
        return chosen
    has_calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    return StepPlan(how="optimizer" if has_calls else "cell")


def _of_loops(loops: Sequence[LoopOfCell], *, takes_any: bool) -> StepPlan | None:
    """Return the plan for one of these loops; ``takes_any``: also if none does anything with torch."""
    loops = loops if takes_any else [one for one in loops if not _ends_at_once(one.loop)] or loops
    for training in ([one for one in loops if one.signs.steps], [one for one in loops if one.signs.backward]):
        found = next(iter(training), None)  # outer ones come first
        if found is not None:
            return StepPlan(how="loop", chosen=found, starts_late=True, is_checked=not found.signs.steps)
    data = [one for one in loops if not walks_over_a_model(_source(one.loop))]
    able = [one for one in data if one.signs.model] or [one for one in data if one.signs.torch or one.signs.unknown]
    if not able:
        chosen = _innermost(loops) if takes_any else None
        return None if chosen is None else StepPlan(how="loop", chosen=chosen, starts_late=True)
    guess = _innermost(able)
    if len(able) == 1 and (guess.signs.model or not guess.around):
        return StepPlan(how="loop", chosen=guess, starts_late=True, is_checked=True)
    # Where an inner loop turns out to be too short, the steps are made by one around it.
    around = {id(outer): outer for one in able for outer in one.around}
    candidates = [one for one in loops if one in able or id(one) in around]
    return StepPlan(how="loop", chosen=guess, candidates=tuple(candidates), starts_late=True, is_checked=True)


def _ends_at_once(loop: Loop) -> bool:
    """Return whether the first iteration of a loop is its last one: it takes one item, to try something."""
    return any(isinstance(statement, ast.Break) for statement in loop.body)


def _source(loop: Loop) -> ast.expr:
    return loop.test if isinstance(loop, ast.While) else loop.iter


def _loops(
    body: Sequence[ast.AST], around: tuple[LoopOfCell, ...], reader: Reader, lines: Sequence[str]
) -> Iterator[LoopOfCell]:
    """Yield the loops that run where they are written, in source order."""
    for node in body:
        if isinstance(node, DEFERRED):
            continue
        if isinstance(node, LOOPS):
            code = lines[node.lineno - 1].strip() if node.lineno <= len(lines) else ""
            found = LoopOfCell(loop=node, around=around, code=code, signs=reader.signs_of_loop(node))
            yield found
            yield from _loops(list(ast.iter_child_nodes(node)), (found, *around), reader, lines)
        else:
            yield from _loops(list(ast.iter_child_nodes(node)), around, reader, lines)


def _loop_at(loops: Sequence[LoopOfCell], wanted: str) -> LoopOfCell:
    number = wanted.removeprefix("line:")
    for found in loops:
        if str(found.line) == number:
            return found
    lines = ", ".join(str(found.line) for found in loops) or "none"
    raise OptionsError(
        f"--step {wanted}: no for or while loop begins on that line of the cell (loops begin on: {lines})"
    )


def _innermost(loops: Sequence[LoopOfCell]) -> LoopOfCell:
    """Return the innermost loop of the first nest, following the first loop at each level."""
    best = loops[0]
    for found in loops[1:]:
        if best in found.around:
            best = found
    return best


def _our_calls(tree: ast.Module, namespace: Mapping[str, object]) -> set[str]:
    """Return which of this package's ``step`` and ``steps`` the cell calls."""
    modules, functions = _our_imports(tree)
    calls: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("step", "steps"):
            receiver = dotted(node.func.value)
            if receiver in modules or _is_ours(namespace.get(receiver)):
                calls.add(node.func.attr)
        elif isinstance(node.func, ast.Name):
            name = node.func.id
            known = namespace.get(name)
            if name in functions or (callable(known) and _is_ours(known) and name in ("step", "steps")):
                calls.add(functions.get(name, name))
    return calls


def _our_imports(tree: ast.Module) -> tuple[set[str], dict[str, str]]:
    """Return the names under which the cell imports this package and its ``step`` and ``steps`` functions."""
    modules: set[str] = set()
    functions: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.asname or alias.name for alias in node.names if alias.name == OUR_MODULE)
        elif isinstance(node, ast.ImportFrom) and node.module == OUR_MODULE:
            functions.update(
                {alias.asname or alias.name: alias.name for alias in node.names if alias.name in ("step", "steps")}
            )
    return modules, functions


def _is_ours(value: object) -> bool:
    kind = type(value)
    if is_a(value, ModuleType):
        return attributes_of(value).get("__name__") == OUR_MODULE
    module = value.__module__ if kind is FunctionType else module_of(kind)
    return str(module).partition(".")[0] == OUR_MODULE
