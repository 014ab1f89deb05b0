"""Names of what runs in compiled code: the nodes of FX graphs, with the lines and modules of the model.

torch can mark each node of a graph in a trace, and tell for each kernel of Inductor what it fuses, for code that is
compiled while its settings for that are on. What the marks mean is known only to the process, so it is kept here.
"""

from __future__ import annotations

import operator
import re
from contextlib import ExitStack, suppress
from functools import partial, wraps
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch.fx import GraphModule

from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.imported import once_imported
from torchprof_magic.model.recording import FxCall, FxGraph, FxNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# So many graphs are kept, the latest; a model has a few for each time that it is compiled.
MOST_GRAPHS = 2_000
# The attribute under which a graph of Inductor keeps what it calls, also in the caches of torch.
_CALLS = "_torchprof_calls"
_CONFIG = "torch.fx.experimental._config"
_FILE = re.compile(r"^fx_generated_.*\.py$")
# The attribute under which what torch.compile puts around a model has it.
_WRAPPED = "_orig_mod"
_IN_PATH = re.compile(r"_modules\[|getattr\(|[A-Za-z_]\w*|[0-9]+")
_BACKWARD = "backward"
# What a kernel does that only reads inputs of the graph.
_OF_INPUT = "copy of inputs"
# So many nodes are looked at to find one with a line.
_MOST_BESIDE = 100
# The variables that hold the compiled model itself; torch calls the forward of a container in a function of its own.
_MODEL = ["self"], ["fn"]
_VARIABLE = re.compile(r"(?:getattr\()*[LG]\['")


class FxNames:
    """Keeps the names of what is compiled while it is on; it is on as often as ``switch_on`` was called."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str, str], FxGraph] = {}
        self._users = 0
        self._ends = ExitStack()
        self._changing = Lock()

    def switch_on(self) -> Callable[[], None]:
        """Name what is compiled from now on; return a function that ends this, unless another one has asked for it.

        Does nothing with a torch that cannot mark the nodes of graphs.
        """
        if not features.is_known(features.NODE_MARKS):
            return lambda: None
        with self._changing:
            self._users += 1
            if self._users == 1:
                self._begin()
        is_over = False

        def end() -> None:
            nonlocal is_over
            with self._changing:
                if not is_over:
                    is_over = True
                    self._users -= 1
                    if self._users == 0:
                        self._ends.close()

        return end

    def known(self) -> tuple[FxGraph, ...]:
        """Return all graphs that were compiled while it was on, the latest ones where there are very many."""
        return tuple(self._graphs.values())

    def _begin(self) -> None:
        self._ends.callback(_replaced(GraphModule, "recompile", self._recompiling))
        self._ends.callback(once_imported("torch._inductor.config", self._set_up_inductor))
        self._ends.callback(once_imported("torch._inductor.output_code", self._watch_inductor))

    def _recompiling(self, recompile: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return ``recompile`` of a graph, which marks the nodes of graphs that torch.compile makes."""

        @wraps(recompile)
        def marking(graph: Any) -> Any:
            undo = None
            with suppress(Exception):  # the program must not fail because of names
                undo = _marks_begin(graph)
            try:
                return recompile(graph)
            finally:
                if undo is not None:
                    undo()
                    with suppress(Exception):  # the same
                        self._keep(_graph_of(graph))

        return marking

    def _set_up_inductor(self, config: Any) -> None:
        with suppress(Exception):  # another torch calls them otherwise; compiled code then has fewer names
            if features.is_known(features.KERNEL_NODES):
                self._ends.callback(_set(config.trace, "provenance_tracking_level", 1, unless=bool))
            self._ends.callback(_set(config.cpp, "enable_kernel_profile", True, unless=bool))  # noqa: FBT003 - the same

    def _watch_inductor(self, module: Any) -> None:
        with suppress(Exception):  # the same
            compiled = module.CompiledFxGraph
            self._ends.callback(_replaced(compiled, "__init__", partial(_then, act=_note_calls)))
            self._ends.callback(_replaced(compiled, "post_compile", partial(_then, act=self._keep_compiled)))

    def _keep_compiled(self, compiled: Any, *_: object) -> None:
        """Keep what a graph of Inductor calls; it was compiled now, or found in a cache."""
        key = str(getattr(compiled, "_fx_graph_cache_key", None))
        calls = msgspec.json.decode(getattr(compiled, _CALLS, "[]"), type=tuple[FxCall, ...])
        code = getattr(compiled.current_callable, "__globals__", {}).get("__file__") or ""
        self._keep(FxGraph(name=key, calls=calls, code=str(code)))

    def _keep(self, graph: FxGraph | None) -> None:
        if graph is not None:
            key = graph.name, graph.code  # without its caches, torch calls all code of Inductor None
            self._graphs.pop(key, None)
            self._graphs[key] = graph
            while len(self._graphs) > MOST_GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))


NAMES = FxNames()
_ends: list[Callable[[], None]] = []


def name_compiled_code(*, is_on: bool = True) -> None:
    """Have reports name what runs in code that ``torch.compile`` compiles from now on, until it ``is_on`` no more.

    Ops and kernels then belong to nodes of its graphs, and to lines and modules of the model. It is on in recorded
    code, and after ``%load_ext torchprof_magic``; call it where a model is compiled before its recording. Calling it
    twice is calling it once. With a torch before 2.10 it does nothing.
    """
    if is_on and not _ends:
        _ends.append(NAMES.switch_on())
    elif not is_on and _ends:
        _ends.pop()()


def is_marked_graph(module: object) -> bool:
    """Return whether a module is a graph whose nodes torch marks: one that torch.compile made."""
    return isinstance(module, GraphModule) and _FILE.match(type(module).forward.__code__.co_filename) is not None


def wrapped_in(module: torch.nn.Module) -> torch.nn.Module | None:
    """Return the model that torch.compile has put a module around; None for other modules."""
    if type(module).__module__ != "torch._dynamo.eval_frame":
        return None
    return module._modules.get(_WRAPPED)  # noqa: SLF001 - the attribute itself could be anything


def without_wrappers(path: str) -> str:
    """Return the path of a module without what torch.compile puts around models: no attribute of the program's."""
    return ".".join(part for part in path.split(".") if part != _WRAPPED)


def _marks_begin(graph: Any) -> Callable[[], None] | None:
    """Have torch mark the nodes of a graph of torch.compile; return a function that ends this, or None for others."""
    if not _is_compiling(graph):
        return None
    from torch.fx.experimental import _config  # noqa: PLC0415 - older versions have none

    return _set(_config, features.NODE_MARKS, True)  # noqa: FBT003 - the value of a setting


def _is_compiling(graph: Any) -> bool:
    """Return whether a graph is one of torch.compile: no other code that torch.fx writes gets marks."""
    is_lazy = any(each.__name__ == "_LazyGraphModule" for each in type(graph).__mro__)
    return is_lazy or torch._guards.CompileContext.try_get() is not None  # noqa: SLF001 - torch has no other way to ask


def _set(owner: Any, name: str, value: object, unless: Callable[[Any], bool] | None = None) -> Callable[[], None]:
    """Change a setting, ``unless`` the program has set it; return a function that changes it back."""
    before = getattr(owner, name)
    if before == value or (unless is not None and unless(before)):
        return lambda: None
    setattr(owner, name, value)

    def undo() -> None:
        if getattr(owner, name) == value:
            setattr(owner, name, before)

    return undo


def _replaced(owner: Any, name: str, replacement: Callable[[Any], Any]) -> Callable[[], None]:
    """Put ``replacement(original)`` in the place of a method; return a function that puts it back."""
    original = getattr(owner, name)
    ours = replacement(original)
    setattr(owner, name, ours)

    def undo() -> None:
        if getattr(owner, name) is ours:
            setattr(owner, name, original)

    return undo


def _then(method: Callable[..., Any], *, act: Callable[..., object]) -> Callable[..., Any]:
    """Return a method that calls ``act`` with its arguments afterwards."""

    @wraps(method)
    def both(*arguments: Any, **keywords: Any) -> Any:
        result = method(*arguments, **keywords)
        with suppress(Exception):  # the program must not fail because of names
            act(*arguments, *keywords.values())
        return result

    return both


def _graph_of(module: Any) -> FxGraph | None:
    """Return the nodes of a graph that has marks, by their numbers; None of one that has none."""
    file = type(module).forward.__code__.co_filename
    if not _FILE.match(file):
        return None
    return FxGraph(name=file, nodes=tuple(map(_node_of, module.graph.nodes)))


def _note_calls(compiled: Any, *arguments: object) -> None:
    """Note at a graph of Inductor which kernels it calls, in order, and which nodes each of them computes."""
    debug = torch._inductor.debug  # noqa: SLF001 - the only place where torch keeps it
    names = debug._inductor_triton_kernel_to_post_grad_node_info  # noqa: SLF001 - the same
    graphs = [each.graph for each in arguments if isinstance(each, GraphModule)]
    nodes = {node.name: node for graph in graphs for node in graph.nodes}
    place = {name: at for at, name in enumerate(nodes)}
    kernels = sorted(names, key=_place_of)
    calls = [
        FxCall(
            kernel=kernel.rpartition(":")[0],
            nodes=tuple(
                _node_of(nodes[name]) for name in sorted(set(names[kernel]) & set(nodes), key=place.__getitem__)
            ),
        )
        for kernel in kernels
    ]
    # As text, which programs without this package can take out of the caches as well.
    setattr(compiled, _CALLS, msgspec.json.encode(calls).decode())


def _place_of(kernel: str) -> int:
    """Return the place of a kernel, ``cpp_fused_add_0:3``, in the order of the calls."""
    return int(kernel.rpartition(":")[2])


def _node_of(node: Any) -> FxNode:
    placed = _placed(node)
    return FxNode(
        name=node.name,
        does=_what_it_does(node),
        stack=_stack_of(placed),
        modules=tuple(_modules_in(_modules_of(placed))),
        is_view=node.target is operator.getitem or bool(getattr(node.target, "is_view", False)),
    )


def _placed(node: Any) -> Any:
    """Return the nearest node with a line that uses what a node makes, if torch made this one itself; else the node.

    So are attention that the compiler finds in a program, and copies of its inputs. In the backward pass, what a node
    gets is what comes from the lines after it.
    """
    users, inputs = attrgetter("users"), attrgetter("all_input_nodes")
    for beside in (inputs, users) if _BACKWARD in node.name else (users, inputs):
        around = {node: None}
        for each in (found := [node]):
            if _stack_of(each):
                return each
            if len(found) < _MOST_BESIDE:
                found += [other for other in beside(each) if other not in around]
                around |= dict.fromkeys(beside(each))
    return node


def _stack_of(node: Any) -> str:
    return str(node.meta.get("stack_trace") or "")


def _modules_of(node: Any) -> Iterable[Any]:
    """Return the modules around a node; of one that torch made of several, those of its inputs from the same line."""
    for each in (node, *node.all_input_nodes):
        stack = each.meta.get("nn_module_stack") or each.meta.get("fwd_nn_module_stack")
        if stack and (each is node or (_stack_of(each) and _stack_of(node).startswith(_stack_of(each)))):
            return tuple(stack.values())
    return ()


def _what_it_does(node: Any) -> str:
    """Return what the program called for a node, ``linear``, or ``linear backward``; else its own op."""
    if node.op == "placeholder":
        return _OF_INPUT
    for key, suffix in (("source_fn_stack", ""), ("fwd_source_fn_stack", " backward")):
        calls = node.meta.get(key)
        if calls:
            called = calls[-1][1]
            name = called if isinstance(called, str) else getattr(called, "__name__", str(called))
            return name.removesuffix(".default") + suffix
    name = getattr(node.target, "_opname", None) or getattr(node.target, "__name__", node.target)
    return str(name).removesuffix(".default")


def _modules_in(stack: Iterable[Any]) -> Iterable[tuple[str, str]]:
    """Yield the path and the class of each module around a node, the outermost first."""
    for path, kind, *_ in stack:
        yield _path_of(str(path)), kind.rpartition(".")[2] if isinstance(kind, str) else kind.__name__


def _path_of(source: str) -> str:
    """Return the path of attributes that ``L['self'].layers[0]`` stands for, empty for the model itself."""
    found = [part for part in _IN_PATH.findall(source) if part not in ("_modules[", "getattr(", _WRAPPED)]
    if _VARIABLE.match(source):
        found = found[1:]
    return ".".join(found[1:] if found[:1] in _MODEL else found)
