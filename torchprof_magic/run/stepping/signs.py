"""What a piece of a cell does with torch, as far as its text and the functions that it calls tell.

Functions and methods are followed to where they are written, in the cell, in an earlier one or in a file, some calls
deep. Nothing of the user's is run: values are looked up as they lie in dictionaries and classes.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sysconfig
import textwrap
from collections import ChainMap
from dataclasses import dataclass, fields
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture import TENSOR_METHODS, is_model, is_tensor
from torchprof_magic.run.stepping.names import (
    OTHER_LIBRARIES,
    SCHEDULER_WORD,
    UNKNOWN,
    Instance,
    begins_with_tensor,
    is_torchs,
    library_of,
    value_of,
    walks_over_parts,
    words,
)
from torchprof_magic.run.stepping.syntax import LOOPS, Function, dotted, loops_in, walk_here
from torchprof_magic.system.process.lookups import attributes_of, is_a, module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchprof_magic.run.stepping.names import Names


OPTIMIZER_WORDS = ("opt", "adam", "sgd", "scaler")
# Methods of containers, texts, files, threads, progress bars and models, whatever they are called of.
_PLAIN_METHODS = words(
    "append extend insert pop remove clear copy index count reverse add discard keys values items get "
    "setdefault format join split strip startswith endswith replace lower upper encode decode write writelines flush "
    "close start submit is_alive is_set put put_nowait task_done terminate kill set wait release acquire "
    "set_description set_postfix info debug warning log eval requires_grad_"
)
# These call the function that they are given, in the same thread or waiting for others.
_CALLING = words("map filter partial reduce starmap imap imap_unordered sorted apply")
# Functions and methods of torch that set something, or move, save or load values: no work that makes a step.
_NO_OPS = words(
    "train eval requires_grad_ zero_grad state_dict load_state_dict parameters named_parameters modules named_modules "
    "children buffers size dim numel manual_seed is_available set_grad_enabled set_num_threads synchronize save load "
    "to cpu cuda numpy tensor from_numpy as_tensor item tolist get_lr get_last_lr add_scalar add_scalars"
)
_OP_METHODS = TENSOR_METHODS - _PLAIN_METHODS - _NO_OPS
_QUIET_METHODS = TENSOR_METHODS & _NO_OPS
_OWN_METHODS = {name for kind in (list, dict, str, set, float, int, bytes) for name in dir(kind)} - {"update"}
# These set a mode, or move a progress bar, if they get constants, and may do any work with other things.
_PLAIN_WITH_CONSTANTS = words("train update")
_MOST_DEEP = 5
_MOST_FUNCTIONS = 100


@dataclass(slots=True)
class Signs:
    """What a piece of code does: ``steps`` an optimizer, runs ``backward``, calls a ``model``, runs ops of ``torch``.

    ``unknown``: it calls something that could not be looked up, and that may do any of these.
    """

    steps: bool = False
    backward: bool = False
    model: bool = False
    torch: bool = False
    unknown: bool = False

    @property
    def may_do_torch(self) -> bool:
        """True if it calls a model, runs ops, or may do so."""
        return self.model or self.torch or self.unknown

    def add(self, other: Signs) -> None:
        """Add what another piece of code does."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) or getattr(other, one.name))


class Reader:
    """Finds the signs of pieces of one cell; what is found of a function is kept."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._known: dict[tuple[int, str], Signs] = {}
        self._kept: list[object] = []  # so that no other object gets the number of one that was looked at

    def signs_of(self, body: Sequence[ast.AST]) -> Signs:
        """Return what a piece of code does, with all of its loops."""
        return self._signs(body, self.names.values, 0)

    def signs_of_loop(self, loop: ast.For | ast.AsyncFor | ast.While) -> Signs:
        """Return what an iteration of a loop does: its body, and fetching its item.

        Of the loops in it, only those count that go over the parts of a model, and so make no steps of their own.
        """
        values = self.names.values
        found = self._signs(loop.body, values, 0, barriers=LOOPS)
        for inner in loops_in(loop):
            if walks_over_parts(inner, self.names):
                found.add(self.signs_of_loop(inner))
        found.add(
            self._signs([loop.test], values, 0)
            if isinstance(loop, ast.While)
            else self._of_source(loop.iter, values, 0)
        )
        return found

    def _signs(
        self,
        nodes: Iterable[ast.AST],
        values: Mapping[str, object],
        depth: int,
        barriers: tuple[type[ast.AST], ...] = (),
    ) -> Signs:
        found = Signs()
        for root in nodes:
            for node in walk_here(root, barriers):
                if isinstance(node, ast.Call):
                    found.add(self._of_call(node, values, depth))
                elif isinstance(node, (ast.BinOp, ast.AugAssign)):
                    found.add(self._of_operator(node, values))
                elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
                    found.add(self._of_source(node.iter, values, depth))
        return found

    def _of_operator(self, node: ast.BinOp | ast.AugAssign, values: Mapping[str, object]) -> Signs:
        """Return what an operator does: with a tensor it is an op; what is counted is none."""
        left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        if isinstance(node.op, ast.MatMult):
            return Signs(torch=not any(self.names.is_of_other_library(one, values) for one in (left, right)))
        return Signs(torch=any(self._is_tensor(one, values) for one in (left, right)))

    def _is_tensor(self, operand: ast.expr, values: Mapping[str, object]) -> bool:
        """Return whether an operand is a tensor, a part of one, or an element of a list of them."""
        is_part = isinstance(operand, ast.Subscript)
        while isinstance(operand, ast.Subscript):
            operand = operand.value
        value = value_of(operand, values)
        is_listed = is_part and begins_with_tensor(value)
        return dotted(operand) in self.names.tensors or is_tensor(value) or is_listed

    def _of_source(self, source: ast.expr, values: Mapping[str, object], depth: int) -> Signs:
        """Return what an iteration of ``source`` trains: a generator may do all the work.

        What else it does is loading data, and what is called to make it is called once.
        """
        found = Signs()
        for node in walk_here(source):
            value = value_of(node, values)
            call = self.names.made.get(dotted(node)) or node  # the cell may make the generator before
            if type(value) is GeneratorType:
                found.add(self._of_value(value, depth))
            elif isinstance(call, ast.Call) and self._is_generator(call.func, values):
                found.add(self._of_callee(call.func, values, depth))
        return Signs(steps=found.steps, backward=found.backward, model=found.model)

    def _is_generator(self, callee: ast.expr, values: Mapping[str, object]) -> bool:
        """Return whether calling makes a generator; only functions are looked at."""
        written = self._function(callee)
        if isinstance(written, ast.FunctionDef):
            return any(
                isinstance(node, (ast.Yield, ast.YieldFrom)) for part in written.body for node in walk_here(part)
            )
        value = value_of(callee, values)
        function = value.__func__ if type(value) is MethodType else value
        return type(function) is FunctionType and inspect.isgeneratorfunction(function)

    def _of_call(self, call: ast.Call, values: Mapping[str, object], depth: int) -> Signs:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if _is_optimizer_step(call, self.names.optimizers, values):
            return Signs(steps=True, torch=True)
        if name == "backward":
            return Signs(backward=True, torch=True)
        if name in _PLAIN_WITH_CONSTANTS and self._is_plain(call, values):
            return Signs()
        found = Signs()
        if (name or dotted(call.func)) in _CALLING and not self.names.is_of_other_library(call.func, values):
            for given in call.args[:1]:
                found.add(self._of_callee(given, values, depth))
        found.add(self._of_callee(call.func, values, depth))
        return found

    def _is_plain(self, call: ast.Call, values: Mapping[str, object]) -> bool:
        """Return whether a call of ``train`` or ``update`` only sets the mode of a model, or moves a progress bar."""
        callee = call.func
        assert isinstance(callee, ast.Attribute)
        if self.names.class_of(callee.value, values) is not None or value_of(callee, values) is not UNKNOWN:
            return False  # it is known what it does
        is_model = dotted(callee.value) in self.names.models
        has_constants = bool(call.args) and all(isinstance(given, ast.Constant) for given in call.args)
        return is_model or has_constants or (callee.attr == "update" and not call.args)

    def _function(self, callee: ast.expr) -> Function | None:
        """Return the function of the cell that an expression names or is."""
        if isinstance(callee, ast.Lambda):
            return callee
        return self.names.functions.get(callee.id) if isinstance(callee, ast.Name) else None

    def _of_callee(self, callee: ast.expr, values: Mapping[str, object], depth: int) -> Signs:
        written = self._function(callee)
        if written is not None:
            return self._of_written(written, self.names.values, depth)
        if dotted(callee) in self.names.models:
            return Signs(model=True, torch=True)
        made = dotted(callee)
        if made in self.names.classes:
            return self._of_method(made, "__init__", depth) if self.names.method(made, "__init__") else Signs()
        value = value_of(callee, values)
        if type(value) is Instance:
            return self._of_method(value.class_name, "__call__", depth)
        return self._of_unknown(callee, values, depth) if value is UNKNOWN else self._of_value(value, depth)

    def _of_unknown(self, callee: ast.expr, values: Mapping[str, object], depth: int) -> Signs:
        """Return what calling does whose value is not known, by its name."""
        if not isinstance(callee, ast.Attribute):
            # A call of what a call returns, or of an element.
            return Signs(unknown=not (isinstance(callee, ast.Name) and callee.id in _BUILTINS))
        class_name = self.names.class_of(callee.value, values)
        if class_name is not None and self.names.method(class_name, callee.attr) is not None:
            return self._of_method(class_name, callee.attr, depth)
        found, methods = Signs(), [] if class_name is not None else self.names.methods(callee.attr)
        for method in methods:
            found.add(self._of_written(method, self.names.values, depth))
        if methods or self.names.is_of_other_library(callee.value, values):
            return found
        if callee.attr not in _PLAIN_METHODS | _OWN_METHODS | _QUIET_METHODS:
            is_op = callee.attr in _OP_METHODS
            found.add(Signs(torch=is_op, unknown=not is_op))
        return found

    def _of_method(self, class_name: str, name: str, depth: int) -> Signs:
        """Return what a method of a class of the cell does, called of an object of this class."""
        method = self.names.method(class_name, name)
        if method is None or isinstance(method, ast.Lambda):
            return Signs(unknown=True)
        first = [*method.args.posonlyargs, *method.args.args][:1]
        bound: dict[str, object] = {one.arg: Instance(class_name) for one in first}
        return self._of_written(method, ChainMap(bound, self.names.values), depth, class_name)  # type: ignore[arg-type]

    def _of_written(self, function: Function, values: Mapping[str, object], depth: int, class_name: str = "") -> Signs:
        """Return what a function does that stands in a tree, with what is in its loops and inner functions."""
        return self._once(function, class_name, depth, lambda: self._signs(_statements(function), values, depth + 1))

    def _once(self, code: Function | CodeType, class_name: str, depth: int, read: Callable[[], Signs]) -> Signs:
        """Return what was found of a function before, or what ``read`` returns; nothing while it calls itself."""
        key = (id(code), class_name)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Signs()
            self._kept.append(code)
            is_followed = depth <= _MOST_DEEP and len(self._known) <= _MOST_FUNCTIONS
            known.add(read() if is_followed else Signs(unknown=True))
        return known

    def _of_value(self, value: Any, depth: int) -> Signs:
        """Return what calling a value does, or iterating over a generator."""
        value = _unwrapped(value)
        kind = type(value)
        if kind is MethodType:
            return self._of_function(value.__func__, depth, value.__self__)
        if kind is FunctionType:
            return self._of_function(value, depth)
        if kind is GeneratorType:
            frame = value.gi_frame
            return Signs() if frame is None else self._of_code(value.gi_code, frame.f_globals, depth)
        known = _of_known_kind(value)
        if known is not None:
            return known
        called = inspect.getattr_static(kind, "__call__", None)
        return self._of_function(called, depth, value) if type(called) is FunctionType else Signs(unknown=True)

    def _of_function(self, function: Any, depth: int, owner: object = None) -> Signs:
        if type(function) is not FunctionType:
            return Signs(unknown=True)
        inner = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        if is_of_library(function.__code__):
            return self._of_wrapper(function, inner, depth)
        closure = dict(zip(function.__code__.co_freevars, inner, strict=False))
        names: ChainMap[str, object] = ChainMap(closure, function.__globals__)
        if owner is not None and function.__code__.co_argcount:
            names = names.new_child({function.__code__.co_varnames[0]: owner})
        return self._of_code(function.__code__, names, depth)

    def _of_wrapper(self, function: FunctionType, inner: Sequence[object], depth: int) -> Signs:
        """Return what a function of a library does: what it decorates or compiles is in its closure."""
        wrapped = [one for one in (*inner, attributes_of(function).get("__wrapped__")) if _is_users(one)]
        found = Signs() if is_torchs(str(function.__module__)) else _by_names(function.__code__)
        found.torch |= is_torchs(str(function.__module__)) and not wrapped and function.__name__ not in _NO_OPS
        for one in wrapped:
            found.add(self._of_value(one, depth))
        return found

    def _of_code(self, code: CodeType, values: Mapping[str, object], depth: int) -> Signs:
        def read() -> Signs:
            body = None if is_of_library(code) else _body_of(code)
            return _by_names(code) if body is None else self._signs(body, values, depth + 1)

        return self._once(code, "", depth, read)


def _statements(function: Function) -> Sequence[ast.AST]:
    return [function.body] if isinstance(function, ast.Lambda) else function.body


def _unwrapped(value: Any) -> Any:
    """Return the function in partial objects."""
    for _ in range(_MOST_DEEP):
        value = value.func if type(value) is functools.partial else value
    return value


def _of_known_kind(value: Any) -> Signs | None:
    """Return what calling a value does if it is a module, a class, or something of torch or C; None for others."""
    if is_model(value) and not is_a(value, type):
        return Signs(model=True, torch=True)
    if type(value) is BuiltinFunctionType:
        owner = value.__self__
        from_torch = is_torchs(str(value.__module__)) or is_tensor(owner) or is_torchs(module_of(type(owner)))
        return Signs(torch=from_torch and value.__name__ not in _NO_OPS)
    if type(value) is MethodDescriptorType:
        return Signs(torch=is_torchs(library_of(value)) and value.__name__ not in _NO_OPS)
    if is_a(value, type) or library_of(value) in OTHER_LIBRARIES:
        return Signs()  # a class makes an object: a module, a dataset, a context
    return Signs(torch=True) if is_torchs(module_of(type(value))) else None


_LIBRARIES = (sysconfig.get_path("stdlib"), "<frozen")
_BUILTINS = frozenset(dir(__builtins__) if isinstance(__builtins__, ModuleType) else __builtins__)


def _is_optimizer_step(call: ast.Call, made_here: set[str], values: Mapping[str, object]) -> bool:
    """Return whether a call is that of an optimizer's ``step()``; ``made_here`` names those that the cell makes."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "step"):
        return False
    receiver = dotted(call.func.value)
    last = receiver.rpartition(".")[2].lower()
    if SCHEDULER_WORD in last:
        return False
    value = value_of(call.func.value, values)
    if value is not UNKNOWN and value is not None and receiver not in made_here:
        return (_has(value, "param_groups") and _has(value, "zero_grad")) or "scaler" in last
    return receiver in made_here or any(word in last for word in OPTIMIZER_WORDS)


def _body_of(code: CodeType) -> Sequence[ast.AST] | None:
    """Return the statements of a function, or the expression of a lambda, from its source; None if it has none."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if code.co_name == "<lambda>":
        return [node.body for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    first = tree.body[0] if tree.body else None
    return first.body if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def is_of_library(code: CodeType) -> bool:
    """Return whether code is part of Python or an installed package."""
    return code.co_filename.startswith(_LIBRARIES) or "site-packages" in code.co_filename


def _by_names(code: CodeType) -> Signs:
    """Return what a function does by the names in its code alone: it has no source, or is part of a library."""
    names = set(code.co_names)
    steps = "step" in names and ("zero_grad" in names or any(word in one for one in names for word in OPTIMIZER_WORDS))
    is_unknown = bool(names) and not is_of_library(code)
    return Signs(steps=steps, backward="backward" in names, torch="torch" in names, unknown=is_unknown)


def _has(value: object, name: str) -> bool:
    """Return whether ``value`` has the attribute, without running a property or ``__getattr__`` of the user."""
    return inspect.getattr_static(value, name, None) is not None


def _is_users(value: object) -> bool:
    """Return whether a value of a closure is a model, or code that is not of a library."""
    function = value.__func__ if type(value) is MethodType else value
    is_function = type(function) is FunctionType and not is_of_library(function.__code__)
    return is_function or (is_model(value) and not is_a(value, type))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises for a cell without a value
    except ValueError:
        return False
    return True
