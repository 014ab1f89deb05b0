"""Choosing, before a cell runs, what ends its steps.

Where the text and the functions that it calls do not tell which loop that is, several are candidates, and the first
iterations decide (``choosing``).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.run.stepping.names import Names, walks_over_parts
from torchprof_magic.run.stepping.signs import Reader, Signs
from torchprof_magic.run.stepping.syntax import DEFERRED, LOOPS, Loop, blocks_in, dotted, names_in, walk_here
from torchprof_magic.system.process.lookups import attributes_of, is_a, module_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OUR_MODULE = __name__.partition(".")[0]
WAYS = ("auto", "loop", "optimizer", "model", "cell", "manual")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopOfCell:
    """A loop that runs where it is written: the loops around it, innermost first, and what its own code does.

    ``branches`` are the sides of ``if`` statements in which it stands: the number of the statement, and whether it is
    its ``else``. It ``walks`` if it goes over the parameters or modules of a model. It ``takes_apart`` if it goes over
    a part of what the loop around it has got, such as the rows of a batch, or uses that; and is ``of_one_item`` if it
    does what its header lists with that, as for the two halves of a GAN. All of it is as written: the cell is changed
    later.
    """

    loop: Loop
    around: tuple[LoopOfCell, ...]
    code: str
    signs: Signs
    branches: tuple[tuple[int, bool], ...] = ()
    walks: bool = False
    takes_apart: bool = False
    of_one_item: bool = False

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

    def is_instead_of(self, other: LoopOfCell) -> bool:
        """Return whether only one of the two can run, as they stand on the two sides of an ``if``."""
        return any((number, not is_else) in other.branches for number, is_else in self.branches)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What ends a step.

    Attributes:
        how: ``loop``, ``optimizer``, ``cell`` or ``manual``.
        by_model: Whether calls of a model begin the steps if no optimizer steps: the code shows that it trains nothing.
            None if it does not show that.
        chosen: The loop that makes the steps, as far as is known.
        shown: Loops that are known to make steps by their code: the first one that runs does.
        candidates: Loops of which the first iterations decide, where none is known to.
        others: Loops that make the steps if an optimizer steps in them, or if none of those above runs.
        starts_late: The recording begins when the loop is entered, so that code before it is not in the trace.
        is_checked: Whether steps of optimizers outside of the loop are to be noted: its code shows none.
    """

    how: str
    chosen: LoopOfCell | None = None
    shown: tuple[LoopOfCell, ...] = ()
    candidates: tuple[LoopOfCell, ...] = ()
    others: tuple[LoopOfCell, ...] = ()
    starts_late: bool = False
    is_checked: bool = False
    by_model: bool | None = False

    @property
    def watched(self) -> tuple[LoopOfCell, ...]:
        """The loops that report their iterations; empty if it is certain that ``chosen`` makes the steps."""
        return (*self.shown, *self.candidates, *self.others)

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
    stepping = plan.watched or ((plan.chosen,) if plan.chosen is not None else ())
    return tuple(dict.fromkeys(outer for loop in stepping for outer in loop.around if outer not in stepping))


def plan_steps(
    tree: ast.Module, source_lines: Sequence[str], namespace: Mapping[str, object], wanted: str = "auto"
) -> StepPlan:
    """Choose what ends a step: calls of ours, a loop of the cell, steps of an optimizer, or the end of the cell.

    Of several loops it is the one whose own code steps an optimizer, also in a function that it calls; else the one
    that calls ``backward()``; else the one that calls a model; else one that runs ops of torch, or may. A loop that
    does nothing of that, or walks over the parts of a model, makes no steps.

    ``wanted`` is the value of ``--step``: ``auto``, ``manual``, ``loop``, ``optimizer``, ``model``, ``cell`` or
    ``line:N``.
    ``source_lines`` are the lines that ``tree`` was parsed from, from line 1.
    """
    if wanted not in WAYS and not wanted.startswith("line:"):
        raise OptionsError(f"--step {wanted}: choose one of {', '.join(WAYS)} or line:N")
    if wanted in ("cell", "optimizer", "model"):
        return StepPlan(how="cell" if wanted == "cell" else "optimizer", by_model=wanted == "model")
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
    if not any(isinstance(node, ast.Call) for node in ast.walk(tree)):
        return StepPlan(how="cell")
    signs = reader.signs_of(tree.body)
    by_model = True if signs.model and not signs.unknown else None
    return StepPlan(how="optimizer", by_model=False if signs.steps or signs.backward else by_model)


def _of_loops(loops: Sequence[LoopOfCell], *, takes_any: bool) -> StepPlan | None:
    """Return the plan for one of these loops; ``takes_any``: also if none does anything with torch."""
    loops = loops if takes_any else [one for one in loops if not _ends_at_once(one.loop)] or loops
    data = [one for one in loops if not one.walks]
    if shown := _outermost([_without_walk(one) for one in loops if one.signs.steps]):
        return _shown(shown, data, is_checked=False)
    if shown := _outermost([one for one in loops if one.signs.backward]):
        return _shown(shown, data, is_checked=True)
    able = [one for one in data if one.signs.model] or [one for one in data if one.signs.torch or one.signs.unknown]
    if not able:
        chosen = _innermost(loops) if takes_any else None
        return None if chosen is None else StepPlan(how="loop", chosen=chosen, starts_late=True)
    guess = _innermost(able)
    if len(able) == 1 and (guess.signs.model or not guess.around):
        return _shown([guess], data, is_checked=True)
    # Where an inner loop turns out to be too short, the steps are made by one around it.
    around = {id(outer): outer for one in able for outer in one.around}
    candidates = [one for one in loops if one in able or id(one) in around]
    others = tuple(one for one in data if one.signs.unknown and one not in candidates)
    return StepPlan(
        how="loop", chosen=guess, candidates=tuple(candidates), others=others, starts_late=True, is_checked=True
    )


def _shown(shown: Sequence[LoopOfCell], data: Sequence[LoopOfCell], *, is_checked: bool) -> StepPlan:
    """Return the plan for the first of some loops that runs, with those that may do more than they show."""
    others = [one for one in data if one not in shown and not any(outer in shown for outer in one.around)]
    around = {id(outer) for one in shown for outer in one.around}
    may_step = [one for one in others if is_checked and (one.signs.unknown or id(one) in around)]
    instead = [one for one in others if one.signs.may_do_torch and all(_may_run_for(one, missing) for missing in shown)]
    plan = StepPlan(how="loop", chosen=shown[0], starts_late=True, is_checked=is_checked)
    if len(shown) == 1 and not (may_step or instead):
        return plan
    return replace(plan, shown=tuple(shown), others=tuple(one for one in others if one in may_step or one in instead))


def _may_run_for(loop: LoopOfCell, missing: LoopOfCell) -> bool:
    """Return whether a loop may run after it is known that another one does not."""
    return loop.is_instead_of(missing) or (loop.line > missing.line and missing not in loop.around)


def _without_walk(loop: LoopOfCell) -> LoopOfCell:
    """Return the loop around one that goes over optimizers and lets each step, and other loops as they are."""
    if not loop.around or isinstance(loop.loop, ast.While):
        return loop
    items = names_in(loop.loop.target)
    calls = [node for statement in loop.loop.body for node in walk_here(statement) if isinstance(node, ast.Call)]
    stepping = [call.func.value for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "step"]
    is_walk = any(not items.isdisjoint(names_in(receiver)) for receiver in stepping)
    return loop.around[0] if is_walk else loop


def _outermost(loops: Sequence[LoopOfCell]) -> list[LoopOfCell]:
    """Return the loops that are in no other of them, once each."""
    return [one for one in dict.fromkeys(loops) if not any(outer in loops for outer in one.around)]


def _got_by(loop: Loop) -> set[str]:
    """Return the names that a loop sets for each iteration: its target, and what its body makes of that."""
    found = set() if isinstance(loop, ast.While) else names_in(loop.target)
    for node in (node for statement in loop.body for node in walk_here(statement)):
        if isinstance(node, ast.Assign) and not found.isdisjoint(names_in(node.value)):
            found |= {name for target in node.targets for name in names_in(target)}
    return found


def _used_in(loop: Loop) -> set[str]:
    return {name for statement in loop.body for name in names_in(statement)}


def _ends_at_once(loop: Loop) -> bool:
    """Return whether the first iteration of a loop is its last one: it takes one item, to try something."""
    return any(isinstance(statement, ast.Break) for statement in loop.body)


def _source(loop: Loop) -> ast.expr:
    return loop.test if isinstance(loop, ast.While) else loop.iter


def _loops(
    body: Sequence[ast.AST],
    around: tuple[LoopOfCell, ...],
    reader: Reader,
    lines: Sequence[str],
    branches: tuple[tuple[int, bool], ...] = (),
) -> Iterator[LoopOfCell]:
    """Yield the loops that run where they are written, in source order."""
    for node in body:
        if isinstance(node, DEFERRED):
            continue
        if isinstance(node, ast.If):
            yield from _loops(node.body, around, reader, lines, (*branches, (id(node), False)))
            yield from _loops(node.orelse, around, reader, lines, (*branches, (id(node), True)))
            continue
        inside = around
        if isinstance(node, LOOPS):
            code = lines[node.lineno - 1].strip() if node.lineno <= len(lines) else ""
            signs = reader.signs_of_loop(node)
            got = _got_by(around[0].loop) if around else set()
            found = LoopOfCell(
                loop=node,
                around=around,
                code=code,
                signs=signs,
                branches=branches,
                walks=walks_over_parts(node, reader.names),
                takes_apart=not (names_in(_source(node)) | _used_in(node)).isdisjoint(got),
                of_one_item=isinstance(_source(node), (ast.List, ast.Tuple)) and not _used_in(node).isdisjoint(got),
            )
            yield found
            inside = (found, *around)
        yield from _loops(blocks_in(node), inside, reader, lines, branches)


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
