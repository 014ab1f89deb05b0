"""Choosing the loop of a cell whose iterations are the steps, and instrumenting it.

This works on syntax trees. The cell is not re-indented and no line moves, so tracebacks and ``inspect.getsource`` stay
correct. Only the iterable of the loop is wrapped, or calls with the line number of the loop are put around it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from time import perf_counter_ns
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import Stepping
from torchprof_magic.system.process.lookups import attributes_of, is_a, module_of, special

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import CodeType

    from torchprof_magic.capture import LineMarks

    class SteppedSession(Protocol):
        """The part of a capture session that stepping uses."""

        def start(self, length: int | None = None) -> None:
            """Begin step 0; does nothing if it has begun already."""

        def count(self, iterable: object) -> int | None:
            """Return how many items a loop will get, if that is known."""

        def step(self, fetched_ns: int | None = None) -> None:
            """End a step, whose item was there at ``fetched_ns``."""

        def cut(self) -> None:
            """End a step that was left early."""

        def finish(self, *, is_between: bool = False) -> None:
            """End the recording; ``is_between``: no new step has begun."""


Item = TypeVar("Item")
Loop = ast.For | ast.AsyncFor | ast.While
# Code in these runs when it is called, not where it is written.
DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
OUR_MODULE = __name__.partition(".")[0]
WAYS = ("auto", "loop", "optimizer", "cell", "manual")
OPTIMIZER_WORDS = ("opt", "adam", "sgd", "scaler")
# Schedulers have a step() too, once per epoch, and are made by calls such as torch.optim.lr_scheduler.StepLR.
SCHEDULER_WORD = "sched"
# Stands for the stepper in an instrumented tree.
_STAND_IN = "torchprof stepper 2f6d1c9e"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What ends a step. ``loop`` makes the steps; ``nest`` is the outermost loop around it, which ends the last step.

    ``starts_late``: the recording begins when the loop is entered, so that code before it is not in the trace.
    """

    how: str
    line: int | None = None
    code: str = ""
    loop: Loop | None = None
    nest: Loop | None = None
    starts_late: bool = False

    @property
    def stepping(self) -> Stepping:
        """The plan as the report shows it."""
        return Stepping(how=self.how, line=self.line, code=self.code)


@dataclass(frozen=True, slots=True)
class _Found:
    """A loop that runs where it is written, with the outermost loop around it (itself if there is none)."""

    loop: Loop
    nest: Loop


def plan_steps(
    tree: ast.Module, source_lines: Sequence[str], namespace: Mapping[str, object], wanted: str = "auto"
) -> StepPlan:
    """Choose what ends a step, in this order: manual, optimizer's loop, backward's loop, first loop, hook, whole cell.

    ``wanted`` is the value of ``--step``: ``auto``, ``manual``, ``loop``, ``optimizer``, ``cell`` or ``line:N``.
    ``source_lines`` are the lines that ``tree`` was parsed from, from line 1.
    """
    loops = list(_loops(tree.body, None))
    if wanted.startswith("line:"):
        return _loop_plan(_loop_at(loops, wanted), source_lines)
    if wanted not in WAYS:
        raise OptionsError(f"--step {wanted}: choose one of {', '.join(WAYS)} or line:N")
    if wanted in ("cell", "optimizer"):
        return StepPlan(how=wanted)
    calls = _our_calls(tree, namespace)
    if calls if wanted == "auto" else wanted == "manual":
        return StepPlan(how="manual", starts_late="steps" in calls)
    if loops:
        return _loop_plan(_best_loop(loops, tree, namespace), source_lines)
    if wanted == "loop":
        raise OptionsError("--step loop: the cell contains no loop. Use --step optimizer or --step cell.")
    has_calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    return StepPlan(how="optimizer" if has_calls else "cell")


def instrument(tree: ast.Module, plan: StepPlan) -> ast.Module:
    """Make the chosen loop report its steps to the stepper that ``with_stepper`` puts in; changes ``tree``."""
    if plan.loop is not None:
        tree = _Instrumenter(plan).visit(tree)
    return tree


def with_stepper(code: CodeType, stepper: Stepper) -> CodeType:
    """Return the code of an instrumented cell with the stepper in it.

    It is a constant of the code, because a name would be in the user's namespace, which ``%reset`` and ``del`` can
    empty while the cell runs.
    """
    constants = (stepper if isinstance(value, str) and value == _STAND_IN else value for value in code.co_consts)
    return code.replace(co_consts=tuple(constants))


class Stepper:
    """The object that an instrumented loop calls. A step is one run of the loop body and the fetching of the next item.

    ``marks`` notes the times of the loop's header, at ``line``. A step that ends with ``break`` is listed as
    incomplete, because a break at the end of the body cannot be distinguished from one at its beginning. ``continue``
    and the loop's ``else`` work as usual.
    """

    def __init__(self, session: SteppedSession, marks: LineMarks | None = None, line: int = 0) -> None:
        self._session = session
        self._marks = marks
        self._line = line
        self._is_inside = False
        self._fetched_ns: int | None = None  # a ``while`` loop fetches nothing

    # ``for item in map(fetched, ends, iterable)``: the cell calls ``map``, which calls ``__iter__`` and ``__next__`` of
    # the iterable. So no frame of ours is in a traceback, and no item is kept while the next one is fetched.
    pairs = map

    def steps(self, iterable: Iterable[Item]) -> Iterator[Item]:
        """Iterate and step. A second loop (the next epoch) continues the count."""
        __tracebackhide__ = True
        return map(*self.parts(iterable))

    def parts(self, iterable: Iterable[Item]) -> tuple[Callable[[None, Item], Item], Iterable[None], Iterable[Item]]:
        """Enter the loop, and return the arguments of ``map`` that make an iterator which steps."""
        __tracebackhide__ = True
        self.enter(self._session.count(iterable))
        return self._fetched, _Ends(self), iterable

    def opening(self, iterable: object) -> Callable[[], object]:
        """Enter an ``async for`` loop, and return what the cell calls to get the iterator for ``async_steps``."""
        __tracebackhide__ = True
        self.enter(self._session.count(iterable))
        found: Callable[[], object] | None = special(iterable, "__aiter__")
        return (lambda: _Unusable(iterable)) if found is None else found

    def async_steps(self, iterator: object) -> object:
        """Iterate and step as ``steps`` does, for ``async for``; its body calls ``inside`` first."""
        __tracebackhide__ = True
        if type(iterator) is _Unusable:  # not isinstance, which asks a property of the user's class
            return iterator.value  # Python raises the right error for it
        return _AsyncUnusable(iterator) if special(iterator, "__anext__") is None else _AsyncStepped(iterator, self)

    def inside(self) -> None:
        """Note that an item was fetched."""
        self._is_inside, self._fetched_ns = True, perf_counter_ns()

    def _fetched(self, _: None, item: Item) -> Item:
        self._is_inside, self._fetched_ns = True, perf_counter_ns()
        return item

    def enter(self, length: int | None = None) -> None:
        """Enter the loop, for the first time or again after a ``break``."""
        __tracebackhide__ = True
        if self._is_inside:
            self._is_inside = False
            self._session.cut()
        self._session.start(length)
        self._mark()

    def begin(self) -> None:
        """Begin an iteration, ending the previous one."""
        __tracebackhide__ = True
        self.through()
        self._is_inside = True

    def through(self) -> None:
        """End the current iteration, if there is one."""
        __tracebackhide__ = True
        if self._is_inside:
            self._is_inside = False
            self._session.step(self._fetched_ns)
            self._mark()

    def _mark(self) -> None:
        """Note that the header of the loop runs now: the step that has just ended is none of its time."""
        if self._marks is not None:
            self._marks.mark(self._line)

    def end(self) -> None:
        """Leave the outermost loop: no more steps follow, so the recording ends here."""
        __tracebackhide__ = True
        self._session.finish(is_between=not self._is_inside)


class _Ends:
    """Ends a step whenever it is asked for its next item, which is before the loop fetches its own."""

    __slots__ = ("_stepper",)

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        __tracebackhide__ = True
        self._stepper.through()


class _AsyncStepped:
    """Asynchronous iterator that steps. While it waits for the next item, the step is that of the loop's body."""

    __slots__ = ("_iterator", "_stepper")

    def __init__(self, iterator: object, stepper: Stepper) -> None:
        self._iterator = iterator
        self._stepper = stepper

    def __aiter__(self) -> _AsyncStepped:
        return self

    @property
    def __anext__(self) -> Any:
        """The method of the user's iterator: Python calls it, so no frame of ours is in a traceback."""
        __tracebackhide__ = True
        self._stepper.through()
        return special(self._iterator, "__anext__")


class _Unusable:
    """An object without ``__aiter__``."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class _AsyncUnusable(_Unusable):
    """The result of an ``__aiter__``, which has no ``__anext__``."""

    __slots__ = ()

    def __aiter__(self) -> object:
        return self.value


class _Instrumenter(ast.NodeTransformer):
    """Wraps the iterable of a ``for`` or ``async for`` loop, or adds calls around and in a ``while`` loop."""

    def __init__(self, plan: StepPlan) -> None:
        self._plan = plan

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if node is self._plan.loop:
            at = _place_of_iteration(node)
            parts = ast.copy_location(ast.Starred(self._call("parts", at, node.iter), ast.Load()), at)
            node.iter = self._call("pairs", at, parts)
        return self._with_end(node, [node])

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if node is self._plan.loop:
            at = _place_of_iteration(node)
            opened = ast.copy_location(ast.Call(self._call("opening", at, node.iter), [], []), at)
            node.iter = self._call("async_steps", at, opened)
            node.body.insert(0, self._statement("inside", node))
        return self._with_end(node, [node])

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if node is not self._plan.loop:
            return self._with_end(node, [node])
        node.body.insert(0, self._statement("begin", node))
        node.orelse.insert(0, self._statement("through", node))
        return self._with_end(node, [self._statement("enter", node), node])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def _with_end(self, node: Loop, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [*statements, self._statement("end", node)] if node is self._plan.nest else statements

    def _call(self, method: str, at: ast.AST, *arguments: ast.expr) -> ast.Call:
        helper = ast.Attribute(ast.Constant(_STAND_IN), method, ast.Load())
        call = ast.Call(helper, list(arguments), [])
        for node in (call, helper, helper.value):
            ast.copy_location(node, at)
        return call

    def _statement(self, method: str, loop: Loop) -> ast.stmt:
        statement = ast.Expr(self._call(method, loop))
        ast.copy_location(statement, loop)
        for node in ast.walk(statement):
            if hasattr(node, "end_lineno"):
                node.end_lineno = loop.lineno
                node.end_col_offset = loop.col_offset  # type: ignore[attr-defined]
        return statement


def _place_of_iteration(loop: ast.For | ast.AsyncFor) -> ast.AST:
    """Return the node that tracebacks mark when Python calls ``__iter__`` or ``__next__`` for a loop."""
    return loop.iter if sys.version_info >= (3, 13) else loop


def _loops(body: Sequence[ast.AST], nest: Loop | None) -> Iterator[_Found]:
    """Yield the loops that run where they are written, in source order."""
    for node in body:
        if isinstance(node, DEFERRED):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            yield _Found(node, nest or node)
            yield from _loops(list(ast.iter_child_nodes(node)), nest or node)
        else:
            yield from _loops(list(ast.iter_child_nodes(node)), nest)


def _loop_at(loops: Sequence[_Found], wanted: str) -> _Found:
    number = wanted.removeprefix("line:")
    for found in loops:
        if str(found.loop.lineno) == number:
            return found
    lines = ", ".join(str(found.loop.lineno) for found in loops) or "none"
    raise OptionsError(
        f"--step {wanted}: no for or while loop begins on that line of the cell (loops begin on: {lines})"
    )


def _loop_plan(found: _Found, source_lines: Sequence[str]) -> StepPlan:
    line = found.loop.lineno
    code = source_lines[line - 1].strip() if line <= len(source_lines) else ""
    return StepPlan(how="loop", line=line, code=code, loop=found.loop, nest=found.nest, starts_late=True)


def _best_loop(loops: Sequence[_Found], tree: ast.Module, namespace: Mapping[str, object]) -> _Found:
    made_here = _made_optimizers(tree)
    for found in loops:
        if any(_is_optimizer_step(call, made_here, namespace) for call in _direct_calls(found.loop)):
            return found
    for found in loops:
        if any(
            isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in _direct_calls(found.loop)
        ):
            return found
    return _innermost(loops)


def _innermost(loops: Sequence[_Found]) -> _Found:
    """Return the innermost loop of the first nest, following the first loop at each level."""
    best = loops[0]
    for found in loops[1:]:
        if found.loop in set(ast.walk(best.loop)):
            best = found
    return best


def _direct_calls(loop: Loop) -> Iterator[ast.Call]:
    """Yield the calls in the body of ``loop`` that are not in an inner loop or function."""
    for statement in loop.body:
        for node in _walk_here(statement, (ast.For, ast.While, ast.AsyncFor)):
            if isinstance(node, ast.Call):
                yield node


def _walk_here(node: ast.AST, barriers: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """Yield ``node`` and its descendants, except inside functions, classes and ``barriers``."""
    if isinstance(node, (*DEFERRED, *barriers)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_here(child, barriers)


def _is_optimizer_step(call: ast.Call, made_here: set[str], namespace: Mapping[str, object]) -> bool:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "step"):
        return False
    receiver = _dotted(call.func.value)
    last = receiver.rpartition(".")[2].lower()
    if SCHEDULER_WORD in last:
        return False
    value = namespace.get(receiver)
    if value is not None and receiver not in made_here:
        return (_has(value, "param_groups") and _has(value, "zero_grad")) or "scaler" in last
    return receiver in made_here or any(word in last for word in OPTIMIZER_WORDS)


def _has(value: object, name: str) -> bool:
    """Return whether ``value`` has the attribute, without running a property or ``__getattr__`` of the user."""
    return inspect.getattr_static(value, name, None) is not None


def _made_optimizers(tree: ast.Module) -> set[str]:
    """Return the names that the cell assigns from calls such as ``torch.optim.AdamW(...)``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            maker = _dotted(node.value.func).lower()
            if "optim" in maker and SCHEDULER_WORD not in maker:
                names.update(_dotted(target) for target in node.targets)
    return names - {""}


def _our_calls(tree: ast.Module, namespace: Mapping[str, object]) -> set[str]:
    """Return which of this package's ``step`` and ``steps`` the cell calls."""
    modules, functions = _our_imports(tree)
    calls: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("step", "steps"):
            receiver = _dotted(node.func.value)
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


def _dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for an attribute chain, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(reversed(parts))
    return ".".join([node.id, *reversed(parts)])
