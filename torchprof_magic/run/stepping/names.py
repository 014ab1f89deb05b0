"""What the names in a cell stand for, as far as its text and the values of the notebook tell.

Nothing of the user's is run: values are looked up as they lie in dictionaries and classes.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import ChainMap
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture import is_model, is_parameter, is_tensor
from torchprof_magic.run.stepping.syntax import Function, dotted, walk_here
from torchprof_magic.system.process.lookups import attributes_of, is_a, module_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Schedulers have a step() too, once per epoch, and are made by calls such as torch.optim.lr_scheduler.StepLR.
SCHEDULER_WORD = "sched"
# What is walked over with these is the model, not data.
_PARTS_OF_MODELS = words(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children state_dict "
    "param_groups"
)
# These return what they are given in another form.
_FORMS = words("list tuple set dict sorted reversed enumerate zip filter iter")
_VIEWS = words("items keys values copy")
# What these libraries return is not torch's, although it has methods of the same names; nor is what these methods do.
OTHER_LIBRARIES = words("numpy pandas polars scipy sklearn math cmath random statistics PIL cv2")
_LEAVING_TORCH = words("numpy item tolist")


_MODULE: Any = type.__dict__["__module__"]


class Unknown:
    """Stands for a value that could not be looked up."""


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class Instance:
    """Stands for an object of a class that the cell defines."""

    class_name: str


@dataclass(slots=True)
class Names:
    """What the names of a cell stand for: values of the notebook, and functions and classes that the cell defines.

    ``made`` are the calls that names are assigned from, None where several of them differ. ``models``, ``optimizers``,
    ``tensors``, ``parts`` (of models) and ``others`` (values of libraries without torch) are names that the cell sets.
    """

    values: Mapping[str, object]
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    made: dict[str, ast.Call | None] = field(default_factory=dict)
    optimizers: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    tensors: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    @classmethod
    def of_cell(cls, tree: ast.Module, values: Mapping[str, object]) -> Names:
        """Return the names of a cell that is about to run."""
        found = cls(ChainMap(_imported_by(tree), values))  # type: ignore[arg-type]
        found.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        found._add_functions(tree)
        for node in ast.walk(tree):  # outer loops come first
            if isinstance(node, ast.For):
                found._add_target(node)
            elif isinstance(node, ast.Assign):
                found._add_assigned(node)
        instances: dict[str, object] = {
            name: Instance(dotted(call.func))
            for name, call in found.made.items()
            if call is not None and dotted(call.func) in found.classes
        }
        found.values = ChainMap(instances, found.values)  # type: ignore[arg-type]
        return found

    def _add_functions(self, tree: ast.Module) -> None:
        in_classes = {id(inside) for known in self.classes.values() for inside in known.body}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) not in in_classes:
                self.functions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                self.functions.update({one.id: node.value for one in node.targets if isinstance(one, ast.Name)})

    def _add_target(self, loop: ast.For) -> None:
        """Add what a loop takes from a list of tensors, or from something of another library."""
        if isinstance(loop.target, ast.Name):
            values = value_of(loop.iter, self.values)
            if dotted(loop.iter) in self.tensors or is_tensor(values) or begins_with_tensor(values):
                self.tensors.add(loop.target.id)
            elif self.is_of_other_library(loop.iter, self.values):
                self.others.add(loop.target.id)

    def _add_assigned(self, node: ast.Assign) -> None:
        """Add the names that are assigned from calls such as ``torch.optim.AdamW(...)`` or ``nn.Linear(...)``."""
        names = {dotted(target) for target in node.targets} - {""}
        if self.are_parts(node.value):
            self.parts |= names
        if self.is_of_other_library(node.value, self.values):
            self.others |= names
        if isinstance(node.value, ast.Call):
            for name in names:
                before = self.made.get(name, node.value)
                is_same = before is not None and dotted(before.func) == dotted(node.value.func)
                self.made[name] = node.value if is_same else None
        for call in _made_by(node.value):
            maker = dotted(call.func)
            kind = value_of(call.func, self.values)
            if "optim" in maker.lower():
                self.optimizers |= names if SCHEDULER_WORD not in maker.lower() else set()
            elif self.is_module(maker) or is_model(kind) or _has_part(maker, "nn", "models", "compile"):
                self.models |= names
            elif is_torchs(_module_of_callable(kind)) or _has_part(maker, "torch"):
                self.tensors |= names

    def is_module(self, class_name: str) -> bool:
        """Return whether a class of the cell is written as a module of torch, or derived from one that is."""
        found = self.classes.get(class_name)
        bases = [] if found is None else [dotted(base).rpartition(".")[2] for base in found.bases]
        return any(base.endswith("Module") or (base != class_name and self.is_module(base)) for base in bases)

    def methods(self, name: str) -> list[Function]:
        """Return all methods of this name."""
        return [found for kind in self.classes.values() if (found := _function_in(kind, name)) is not None]

    def method(self, class_name: str, name: str) -> Function | None:
        """Return the method of a class, or the one that it has from another class of the cell."""
        seen, left = set[str](), [class_name]
        while left:
            kind = self.classes.get(left.pop(0))
            if kind is not None and kind.name not in seen:
                seen.add(kind.name)
                if (found := _function_in(kind, name)) is not None:
                    return found
                left += [dotted(base) for base in kind.bases]
        return None

    def class_of(self, expression: ast.expr, values: Mapping[str, object]) -> str | None:
        """Return the class of the cell that an expression is an object of, None if it is of no such class."""
        value = value_of(expression, values)
        if type(value) is Instance:
            return value.class_name
        call = expression if isinstance(expression, ast.Call) else self.made.get(dotted(expression))
        name = "" if call is None else dotted(call.func)
        return name if name in self.classes else None

    def are_parts(self, expression: ast.AST) -> bool:
        """Return whether a value is the parameters or modules of a model, some of them, or a list of these."""
        left: list[ast.AST] = [expression]
        while left:
            node = left.pop()
            if isinstance(node, ast.Attribute) and node.attr in _PARTS_OF_MODELS:
                return True
            if dotted(node) in self.parts or _holds_parameters(value_of(node, self.values)):
                return True
            left += _sources(node)
        return False

    def is_of_other_library(self, expression: ast.AST, values: Mapping[str, object]) -> bool:
        """Return whether a value, or what a list is made of, is of a library that makes no tensors, such as NumPy."""
        node: ast.AST = expression.elt if isinstance(expression, (ast.ListComp, ast.GeneratorExp)) else expression
        while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp)):
            value = value_of(node, values)
            if value is not UNKNOWN:
                break
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEAVING_TORCH:
                return True
            node = node.func if isinstance(node, ast.Call) else node.left if isinstance(node, ast.BinOp) else node.value
        if dotted(node) in self.others:
            return True
        value = value_of(node, values)
        return value is not UNKNOWN and library_of(value) in OTHER_LIBRARIES


def _imported_by(tree: ast.Module) -> dict[str, object]:
    """Return what a cell imports under its names, as far as that has been imported before."""
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or name] = sys.modules.get(name, UNKNOWN)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            module = attributes_of(sys.modules.get(node.module))
            found |= {alias.asname or alias.name: module.get(alias.name, UNKNOWN) for alias in node.names}
    return {name: value for name, value in found.items() if value is not UNKNOWN}


def _function_in(kind: ast.ClassDef, name: str) -> Function | None:
    functions = (inside for inside in kind.body if isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((found for found in functions if found.name == name), None)


def _sources(node: ast.AST) -> Iterable[ast.AST]:
    """Return the expressions that the items of a value come from, where it is only another form of them."""
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        return [generator.iter for generator in node.generators]
    if isinstance(node, ast.Call):
        is_view = isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS | _PARTS_OF_MODELS
        return [node.func] if is_view else node.args if dotted(node.func) in _FORMS else []
    if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        return [node.value]
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else []


def _holds_parameters(value: Any) -> bool:
    if type(value) is dict:
        value = [*value.values()]
    if type(value) not in (list, tuple) or len(value) == 0:
        return False
    first = value[0][-1] if type(value[0]) is tuple and len(value[0]) > 0 else value[0]
    return is_parameter(first)


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


def _has_part(name: str, *parts: str) -> bool:
    return any(part in parts for part in name.split("."))


def value_of(node: ast.AST, values: Mapping[str, object]) -> object:
    """Return the value of a name or a chain of attributes, without running a property or ``__getattr__``."""
    chain: list[str] = []
    while isinstance(node, ast.Attribute):
        chain.append(node.attr)
        node = node.value
    value = values.get(node.id, UNKNOWN) if isinstance(node, ast.Name) else UNKNOWN
    for name in reversed(chain):
        value = UNKNOWN if value is UNKNOWN or type(value) is Instance else _attribute_of(value, name)
    return value


def _attribute_of(owner: object, name: str) -> object:
    """Return an attribute as it lies in an object or its class; a method is bound."""
    own = attributes_of(owner)
    if name in own:
        return own[name]
    if is_model(owner):
        for table in ("_modules", "_parameters", "_buffers"):
            if name in own.get(table, {}):
                return own[table][name]
    found: Any = inspect.getattr_static(owner, name, UNKNOWN)
    if type(found) in (staticmethod, classmethod):
        return found.__func__ if type(found) is staticmethod else MethodType(found.__func__, owner)
    is_method = type(found) is FunctionType and not is_a(owner, (type, ModuleType))
    return MethodType(found, owner) if is_method else found


def begins_with_tensor(value: Any) -> bool:
    """Return whether a value is a list or tuple of which the first item is a tensor."""
    return type(value) in (list, tuple) and len(value) > 0 and is_tensor(value[0])


def is_torchs(module: str) -> bool:
    """Return whether a module is torch's, or of the libraries that come with it."""
    return module.partition(".")[0] in ("torch", "torchvision", "torchaudio")


def library_of(value: object) -> str:
    """Return the top-level module of a module, a function, a class, or of an object's class; empty if unknown."""
    if is_a(value, ModuleType):
        name = attributes_of(value).get("__name__")
    elif type(value) is MethodDescriptorType:
        name = _module_of_class(value.__objclass__)
    else:
        name = _module_of_callable(value) or _module_of_class(value if is_a(value, type) else type(value))
    return name.partition(".")[0] if type(name) is str else ""


def _module_of_class(kind: type) -> object:
    """Return the module of a class as ``type`` tells it, which knows it of classes that are written in C, too."""
    try:
        return _MODULE.__get__(kind)
    except AttributeError:
        return ""


def _module_of_callable(value: Any) -> str:
    """Return the module of a function or a class; empty for other values, which may answer by themselves."""
    if type(value) in (FunctionType, BuiltinFunctionType):
        return str(value.__module__)
    return module_of(value) if is_a(value, type) else ""


def walks_over_parts(loop: ast.For | ast.AsyncFor | ast.While, names: Names) -> bool:
    """Return whether what a loop gets its items from are the parameters or modules of a model."""
    if isinstance(loop, ast.While):
        return False
    source: ast.AST = loop.iter
    while isinstance(source, ast.Call) and source.args and dotted(source.func) in _FORMS:
        source = source.args[0]
    value = value_of(source, names.values)
    if dotted(source) in names.models or (is_model(value) and not is_a(value, type)):
        return True  # its modules
    return names.are_parts(loop.iter) or any(
        isinstance(node, ast.Attribute) and node.attr in _PARTS_OF_MODELS for node in walk_here(loop.iter)
    )
