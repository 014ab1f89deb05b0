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
from dataclasses import dataclass, field, fields
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture import TENSOR_METHODS, is_model, is_tensor
from torchprof_magic.system.process.lookups import attributes_of, is_a, module_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# Code in these runs when it is called, not where it is written.
DEFERRED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
OPTIMIZER_WORDS = ("opt", "adam", "sgd", "scaler")
# Schedulers have a step() too, once per epoch, and are made by calls such as torch.optim.lr_scheduler.StepLR.
SCHEDULER_WORD = "sched"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What is walked over with these is the model, not data.
_PARTS_OF_MODELS = _words(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children state_dict "
    "param_groups"
)
# Methods of containers, texts, files, threads, progress bars and models, whatever they are called of.
_PLAIN_METHODS = _words(
    "append extend insert pop remove clear copy index count reverse add discard update keys values items get "
    "setdefault format join split strip startswith endswith replace lower upper encode decode write writelines flush "
    "close start submit is_alive is_set put put_nowait task_done terminate kill set wait release acquire "
    "set_description set_postfix info debug warning log train eval requires_grad_"
)
# These call the function that they are given, in the same thread or waiting for others.
_CALLING = _words("map filter partial reduce starmap imap imap_unordered sorted apply")
# Functions and methods of torch that set something, or move, save or load values: no work that makes a step.
_NO_OPS = _words(
    "train eval requires_grad_ zero_grad state_dict load_state_dict parameters named_parameters modules named_modules "
    "children buffers size dim numel manual_seed is_available set_grad_enabled set_num_threads synchronize save load "
    "to cpu cuda numpy tensor from_numpy as_tensor item tolist get_lr get_last_lr add_scalar add_scalars"
)
_OP_METHODS = TENSOR_METHODS - _PLAIN_METHODS - _NO_OPS
_OWN_METHODS = {name for kind in (list, dict, str, set, float, int, bytes) for name in dir(kind)}
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

    def add(self, other: Signs) -> None:
        """Add what another piece of code does."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) or getattr(other, one.name))


@dataclass(slots=True)
class Names:
    """What the names of a cell stand for: values of the notebook, and functions and classes that the cell defines."""

    values: Mapping[str, object]
    functions: dict[str, Function] = field(default_factory=dict)
    methods: dict[str, list[Function]] = field(default_factory=dict)
    optimizers: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    tensors: set[str] = field(default_factory=set)
    made: dict[str, ast.Call] = field(default_factory=dict)

    @classmethod
    def of_cell(cls, tree: ast.Module, values: Mapping[str, object]) -> Names:
        """Return the names of a cell that is about to run."""
        found = cls(values)
        found._add_made(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for inside in node.body:
                    if isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        found.methods.setdefault(inside.name, []).append(inside)
        in_classes = {id(one) for several in found.methods.values() for one in several}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) not in in_classes:
                found.functions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                found.functions.update({one.id: node.value for one in node.targets if isinstance(one, ast.Name)})
        return found

    def _add_made(self, tree: ast.Module) -> None:
        """Add the names that the cell assigns from calls such as ``torch.optim.AdamW(...)`` or ``nn.Linear(...)``."""
        modules = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _is_module_class(node)}
        for node in ast.walk(tree):  # outer loops come first
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                values = _value_of(node.iter, self.values)
                if dotted(node.iter) in self.tensors or is_tensor(values) or _begins_with_tensor(values):
                    self.tensors.add(node.target.id)
            if not isinstance(node, ast.Assign):
                continue
            names = {dotted(target) for target in node.targets} - {""}
            if isinstance(node.value, ast.Call):
                self.made.update(dict.fromkeys(names, node.value))
            for call in _made_by(node.value):
                maker = dotted(call.func)
                kind = _unknown_as_none(_value_of(call.func, self.values))
                if "optim" in maker.lower():
                    self.optimizers |= names if SCHEDULER_WORD not in maker.lower() else set()
                elif maker in modules or is_model(kind) or _has_part(maker, "nn", "models", "compile"):
                    self.models |= names
                elif _is_torchs(_module_of_callable(kind)) or _has_part(maker, "torch"):
                    self.tensors |= names


class Reader:
    """Finds the signs of pieces of one cell; what is found of a function is kept."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[int, Signs] = {}
        self._kept: list[object] = []  # so that no other object gets the number of one that was looked at

    def signs_of_loop(self, loop: ast.For | ast.AsyncFor | ast.While) -> Signs:
        """Return what an iteration of a loop does, without the loops in it: its body, and fetching its item."""
        values = self._names.values
        found = self._signs(loop.body, values, 0, barriers=(ast.For, ast.AsyncFor, ast.While))
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
            return Signs(torch=True)
        return Signs(torch=any(self._is_tensor(one, values) for one in (left, right)))

    def _is_tensor(self, operand: ast.expr, values: Mapping[str, object]) -> bool:
        """Return whether an operand is a tensor, a part of one, or an element of a list of them."""
        is_part = isinstance(operand, ast.Subscript)
        while isinstance(operand, ast.Subscript):
            operand = operand.value
        value = _value_of(operand, values)
        is_listed = is_part and _begins_with_tensor(value)
        return dotted(operand) in self._names.tensors or is_tensor(value) or is_listed

    def _of_source(self, source: ast.expr, values: Mapping[str, object], depth: int) -> Signs:
        """Return what an iteration of ``source`` trains: a generator may do all the work.

        What else it does is loading data, and what is called to make it is called once.
        """
        found = Signs()
        for node in walk_here(source):
            value = _value_of(node, values)
            call = self._names.made.get(dotted(node), node)  # the cell may make the generator before
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
        value = _value_of(callee, values)
        function = value.__func__ if type(value) is MethodType else value
        return type(function) is FunctionType and inspect.isgeneratorfunction(function)

    def _of_call(self, call: ast.Call, values: Mapping[str, object], depth: int) -> Signs:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if _is_optimizer_step(call, self._names.optimizers, values):
            return Signs(steps=True, torch=True)
        if name == "backward":
            return Signs(backward=True, torch=True)
        found = Signs()
        if (name or dotted(call.func)) in _CALLING:
            for given in call.args[:1]:
                found.add(self._of_callee(given, values, depth))
        found.add(self._of_callee(call.func, values, depth))
        return found

    def _function(self, callee: ast.expr) -> Function | None:
        """Return the function of the cell that an expression names or is."""
        if isinstance(callee, ast.Lambda):
            return callee
        return self._names.functions.get(callee.id) if isinstance(callee, ast.Name) else None

    def _of_callee(self, callee: ast.expr, values: Mapping[str, object], depth: int) -> Signs:
        written = self._function(callee)
        if written is not None:
            return self._of_written(written, self._names.values, depth)
        if dotted(callee) in self._names.models:
            return Signs(model=True, torch=True)
        value = _value_of(callee, values)
        return self._of_unknown(callee, depth) if value is _UNKNOWN else self._of_value(value, depth)

    def _of_unknown(self, callee: ast.expr, depth: int) -> Signs:
        """Return what calling does whose value is not known, by its name."""
        if not isinstance(callee, ast.Attribute):
            # A call of what a call returns, or of an element.
            return Signs(unknown=not (isinstance(callee, ast.Name) and callee.id in _BUILTINS))
        found = Signs()
        methods = self._names.methods.get(callee.attr, [])
        for method in methods:
            found.add(self._of_written(method, self._names.values, depth))
        if not methods and callee.attr not in _PLAIN_METHODS | _OWN_METHODS:
            is_op = callee.attr in _OP_METHODS
            found.add(Signs(torch=is_op, unknown=not is_op))
        return found

    def _of_written(self, function: Function, values: Mapping[str, object], depth: int) -> Signs:
        """Return what a function does that stands in a tree, with what is in its loops and inner functions."""
        known = self._known.get(id(function))
        if known is None:
            known = self._known[id(function)] = Signs()  # it may call itself
            self._kept.append(function)
            if depth > _MOST_DEEP or len(self._known) > _MOST_FUNCTIONS:
                known.unknown = True
                return known
            body = [function.body] if isinstance(function, ast.Lambda) else function.body
            known.add(self._signs(body, values, depth + 1))
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
        if _is_of_library(function.__code__):
            return self._of_wrapper(function, inner, depth)
        closure = dict(zip(function.__code__.co_freevars, inner, strict=False))
        names: ChainMap[str, object] = ChainMap(closure, function.__globals__)
        if owner is not None and function.__code__.co_argcount:
            names = names.new_child({function.__code__.co_varnames[0]: owner})
        return self._of_code(function.__code__, names, depth)

    def _of_wrapper(self, function: FunctionType, inner: Sequence[object], depth: int) -> Signs:
        """Return what a function of a library does: what it decorates or compiles is in its closure."""
        wrapped = [one for one in (*inner, attributes_of(function).get("__wrapped__")) if _is_users(one)]
        found = Signs() if _is_torchs(str(function.__module__)) else _by_names(function.__code__)
        found.torch |= _is_torchs(str(function.__module__)) and not wrapped and function.__name__ not in _NO_OPS
        for one in wrapped:
            found.add(self._of_value(one, depth))
        return found

    def _of_code(self, code: CodeType, values: MutableMapping[str, Any], depth: int) -> Signs:
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = Signs()
            self._kept.append(code)
            is_followed = depth <= _MOST_DEEP and len(self._known) <= _MOST_FUNCTIONS and not _is_of_library(code)
            body = _body_of(code) if is_followed else None
            known.add(_by_names(code) if body is None else self._signs(body, values, depth + 1))
        return known


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
        is_torchs = _is_torchs(str(value.__module__)) or is_tensor(owner) or _is_torchs(module_of(type(owner)))
        return Signs(torch=is_torchs and value.__name__ not in _NO_OPS)
    if is_a(value, type):
        return Signs()  # it makes an object: a module, a dataset, a context
    return Signs(torch=True) if _is_torchs(module_of(type(value))) else None


class _Unknown:
    """Stands for a value that could not be looked up."""


_UNKNOWN = _Unknown()
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
    value = _value_of(call.func.value, values)
    if value is not _UNKNOWN and value is not None and receiver not in made_here:
        return (_has(value, "param_groups") and _has(value, "zero_grad")) or "scaler" in last
    return receiver in made_here or any(word in last for word in OPTIMIZER_WORDS)


def walks_over_a_model(iterable: ast.AST) -> bool:
    """Return whether what a loop gets its items from are the parameters or modules of a model."""
    return any(isinstance(node, ast.Attribute) and node.attr in _PARTS_OF_MODELS for node in walk_here(iterable))


def walk_here(node: ast.AST, barriers: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """Yield ``node`` and its descendants, except inside functions, classes and ``barriers``."""
    if isinstance(node, (*DEFERRED, *barriers)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from walk_here(child, barriers)


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for an attribute chain, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ".".join(reversed(parts))
    return ".".join([node.id, *reversed(parts)])


def _value_of(node: ast.AST, values: Mapping[str, object]) -> object:
    """Return the value of a name or a chain of attributes, without running a property or ``__getattr__``."""
    if isinstance(node, ast.Name):
        return values.get(node.id, _UNKNOWN)
    owner = _value_of(node.value, values) if isinstance(node, ast.Attribute) else _UNKNOWN
    return _attribute_of(owner, node.attr) if isinstance(node, ast.Attribute) and owner is not _UNKNOWN else _UNKNOWN


def _attribute_of(owner: object, name: str) -> object:
    """Return an attribute as it lies in an object or its class; a method is bound."""
    own = attributes_of(owner)
    if name in own:
        return own[name]
    if is_model(owner):
        for table in ("_modules", "_parameters", "_buffers"):
            if name in own.get(table, {}):
                return own[table][name]
    found: Any = inspect.getattr_static(owner, name, _UNKNOWN)
    if type(found) in (staticmethod, classmethod):
        return found.__func__ if type(found) is staticmethod else MethodType(found.__func__, owner)
    is_method = type(found) is FunctionType and not is_a(owner, (type, ModuleType))
    return MethodType(found, owner) if is_method else found


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


def _is_of_library(code: CodeType) -> bool:
    return code.co_filename.startswith(_LIBRARIES) or "site-packages" in code.co_filename


def _by_names(code: CodeType) -> Signs:
    """Return what a function does by the names in its code alone: it has no source, or is part of a library."""
    names = set(code.co_names)
    steps = "step" in names and ("zero_grad" in names or any(word in one for one in names for word in OPTIMIZER_WORDS))
    is_unknown = bool(names) and not _is_of_library(code)
    return Signs(steps=steps, backward="backward" in names, torch="torch" in names, unknown=is_unknown)


def _is_module_class(node: ast.ClassDef) -> bool:
    """Return whether a class of the cell is written as a module of torch."""
    return any(dotted(base).rpartition(".")[2].endswith("Module") for base in node.bases)


def _made_by(value: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls that make a value: ``Net()`` in ``Net().to(device)`` and in ``compile(Net())``."""
    while isinstance(value, ast.Call):
        yield value
        if isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call):
            value = value.func.value
        elif value.args and isinstance(value.args[0], ast.Call):
            value = value.args[0]
        else:
            return


def _begins_with_tensor(value: Any) -> bool:
    return type(value) in (list, tuple) and len(value) > 0 and is_tensor(value[0])


def _has_part(name: str, *parts: str) -> bool:
    return any(part in parts for part in name.split("."))


def _unknown_as_none(value: object) -> object:
    return None if value is _UNKNOWN else value


def _has(value: object, name: str) -> bool:
    """Return whether ``value`` has the attribute, without running a property or ``__getattr__`` of the user."""
    return inspect.getattr_static(value, name, None) is not None


def _is_torchs(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "torchvision", "torchaudio")


def _module_of_callable(value: Any) -> str:
    """Return the module of a function or a class; empty for other values, which may answer by themselves."""
    if type(value) in (FunctionType, BuiltinFunctionType):
        return str(value.__module__)
    return module_of(value) if is_a(value, type) else ""


def _is_users(value: object) -> bool:
    """Return whether a value of a closure is a model, or code that is not of a library."""
    function = value.__func__ if type(value) is MethodType else value
    is_function = type(function) is FunctionType and not _is_of_library(function.__code__)
    return is_function or (is_model(value) and not is_a(value, type))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises for a cell without a value
    except ValueError:
        return False
    return True
