"""The times at which modules began and ended their forward, by hooks that torch calls for every module."""

from __future__ import annotations

import sys
import weakref
from array import array
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from threading import get_native_id, local
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_module

from torchprof_magic.capture.parts import MODEL_CALLS, MODULES
from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.compiling import MODULE_HOOKS, hide_from_compiler
from torchprof_magic.capture.torch_api.fx_names import is_marked_graph, without_wrappers, wrapped_in
from torchprof_magic.capture.torch_api.module_tree import (
    named_buffers,
    named_modules,
    named_parameters,
    paths_of_modules,
)
from torchprof_magic.capture.torch_api.patching import seen_by_compiler, stand_in, unseen
from torchprof_magic.capture.torch_api.storages import values_in
from torchprof_magic.model.recording import ModuleSite
from torchprof_magic.system.process.lookups import is_a

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from torch.utils.hooks import RemovableHandle

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.watch.memory_tags import MemoryTags
    from torchprof_magic.capture.watch.model_calls import ModelCalls

# What the two hooks of a call cost, measured by benchmarks/marks.py; and the share of a step from which on modules are
# not watched unless that was asked for.
CALL_NS = 4_000
MOST_OF_STEP = 0.03
MAX_CALLS = 1_000_000
# The number of graphs that torch.compile makes of modules: they are none of the program's.
_NO_MODULE = -1
# So many shapes of a call are kept, and so many values are looked at to find them.
MAX_SHAPES = 4
MAX_VALUES = 100


class ModuleMarks:
    """Notes when each call of a module begins and ends, on every thread, while ``is_on``.

    No module is kept alive. Numbers are kept in threes: time, thread, and the number of the module, which is negative
    minus one for an end. ``asked`` is whether the user asked for modules; with None they are watched if they are few.
    The variables of ``namespace`` name the models. ``calls`` is told of each call, and ``tags`` of each outermost
    forward, whether modules are watched or not.
    """

    def __init__(self, asked: bool | None, tags: MemoryTags | None = None, *, parts: Parts) -> None:
        self.is_on = False
        self.is_too_dear = False
        self._is_decided = asked is not None
        self._asked = asked
        self._tags = tags
        self._parts = parts
        self._kept = array("q")
        self._kept_of_steps = 0  # how much of it is of steps that have ended
        self._calls_of_step = 0
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._modules: list[tuple[weakref.ref[Any], str]] = []
        self._depth: dict[int, list[int]] = {}
        self._threads = local()
        # What torch.compile puts around models, and on each thread the number of the model in the latest one.
        self._wrappers: set[int] = set()
        self._wrapped: dict[int, int] = {}
        self._compiled: set[int] = set()
        self._roots: dict[int, None] = {}
        self._sites: list[ModuleSite] = []
        self._shapes: dict[int, tuple[str, str]] = {}
        # For the paths below a root, with the class of the module there: its path here, None if it is not always that.
        self._paths: dict[tuple[str, str], str | None] = {}
        self.namespace: Mapping[str, object] = {}
        self.calls: ModelCalls | None = None

    def watch(self) -> Callable[[], None]:
        """Register the hooks, and return a function that removes them."""
        if self._asked is False and self._tags is None:
            return lambda: None
        with ExitStack() as undo:
            before = torch_module.register_module_forward_pre_hook(self._before)
            undo.callback(before.remove)
            after = torch_module.register_module_forward_hook(self._after, always_call=True, **_with_keywords())
            undo.callback(_remove, after)
            undo.callback(_without_warning({before.id, after.id}))
            undo.callback(hide_from_compiler({before.id, after.id}))
            undo.callback(self.switch, is_on=False)
            return undo.pop_all().close

    def switch(self, *, is_on: bool) -> None:
        """Begin or end to note calls."""
        self.is_on = is_on and not self.is_too_dear and self._asked is not False and not self._parts.is_off(MODULES)
        self._depth.clear()
        self._wrapped.clear()

    def end_step(self, dur_ns: int, is_recorded: bool) -> None:
        """Drop what was noted in a step that is not recorded.

        It decides whether modules are watched at all, unless those of a cycle are recorded by then: cycles are alike.
        """
        calls, self._calls_of_step = self._calls_of_step, 0
        if is_recorded:
            self._is_decided |= calls > 0
        else:
            if not self._is_decided and calls * CALL_NS > MOST_OF_STEP * max(dur_ns, 1):
                self.is_too_dear, self.is_on = True, False
            del self._kept[self._kept_of_steps :]
        self._kept_of_steps = len(self._kept)

    def take(self) -> array[int]:
        """Return what was noted since the last call, and describe the modules while they exist."""
        kept, self._kept, self._kept_of_steps = self._kept, array("q"), 0
        self._describe()
        return kept

    @property
    def threads(self) -> set[int]:
        """The native ids of the threads on which modules ran since the last ``take``."""
        return set(self._kept[1::3])

    @property
    def sites(self) -> tuple[ModuleSite, ...]:
        """The modules that ran, in the order of their numbers, and then those around them."""
        return tuple(self._sites)

    @seen_by_compiler
    def _before(self, module: torch.nn.Module, _: object) -> None:
        if torch.compiler.is_compiling():
            return
        calls = self.calls
        if calls is not None and (name := self._parts.ask(MODEL_CALLS, calls.begin, module, default="")):
            calls.begin_step(name)
        tags = self._tags
        if tags is not None and not tags.outermost and tags.is_on:
            tags.outermost = id(module)
        if not self.is_on:
            return
        try:
            known = self._numbers.get(id(module))
            number = known[1] if known is not None and known[0]() is module else self._number(module)
            if number == _NO_MODULE:
                return
            thread = self._thread()
            above = self._depth.setdefault(thread, [])
            if not above:
                self._roots.setdefault(number)
            if self._wrapped.pop(thread, None) == number:
                above.append(_NO_MODULE)  # the call of the model that is wrapped is that of the wrapper
                return
            if id(module) in self._wrappers:
                self._wrapped[thread] = number
            above.append(number)
            self._note(thread, number)
        except Exception as exc:  # noqa: BLE001 - the user's forward must not fail because of us
            self._fail(exc)

    @seen_by_compiler
    def _after(self, module: torch.nn.Module, arguments: object, *rest: object) -> None:
        """Note an end; ``rest`` is the keyword arguments and the result, or the result alone if forward raised."""
        if torch.compiler.is_compiling():
            return
        try:
            caller = sys._getframe(1)  # noqa: SLF001 - the documented way
            tags = self._tags
            if tags is not None and tags.outermost == id(module):
                tags.outermost = 0
                tags.note_inputs(module, arguments, rest[:-1] or _keywords_of(caller))
            if tags is not None and tags.is_on:
                tags.note_result(rest[-1])
            if self.is_on:
                self._end_call(module, arguments, rest, caller)
            if self.calls is not None:
                self._parts.run(MODEL_CALLS, self.calls.end, module)
        except Exception as exc:  # noqa: BLE001 - the same
            self._fail(exc)

    def _end_call(
        self, module: torch.nn.Module, arguments: object, rest: tuple[object, ...], caller: FrameType
    ) -> None:
        thread = self._thread()
        above = self._depth.get(thread)
        if not above:
            return  # it began before the step
        known = self._numbers.get(id(module))
        if known is None or known[1] not in above:
            return
        if above[-1] == _NO_MODULE:
            above.pop()
            if id(module) not in self._wrappers:
                return
        while above:
            number = above.pop()
            if number == _NO_MODULE:
                continue
            self._note(thread, -number - 1)
            if number == known[1]:
                if number not in self._shapes:
                    keywords = rest[:-1] or _keywords_of(caller)
                    with unseen():
                        self._shapes[number] = shapes_of((arguments, keywords)), shapes_of(rest[-1])
                return

    def _thread(self) -> int:
        """Return the native id of this thread. To ask the system for it takes a tenth of all that a call costs."""
        try:
            found: int = self._threads.native_id
        except AttributeError:
            found = self._threads.native_id = get_native_id()
        return found

    def _fail(self, error: Exception) -> None:
        self.is_on = False
        self._parts.fail(MODULES, error)

    def _note(self, thread: int, number: int) -> None:
        self._calls_of_step += number >= 0
        if len(self._kept) < 6 * MAX_CALLS:
            add = self._kept.append
            add(perf_counter_ns())
            add(thread)
            add(number)

    def _number(self, module: torch.nn.Module) -> int:
        if is_marked_graph(module):
            self._numbers[id(module)] = (weakref.ref(module), _NO_MODULE)
            return _NO_MODULE
        wrapped = wrapped_in(module)
        if wrapped is not None:
            self._wrappers.add(id(module))
            known = self._numbers.get(id(wrapped))
            number = known[1] if known is not None and known[0]() is wrapped else self._number(wrapped)
            self._numbers[id(module)] = (weakref.ref(module), number)
            self._compiled.add(number)
            return number
        self._wrappers.discard(id(module))  # another module may have had its number before
        number = len(self._modules)
        if getattr(module, "_compiled_call_impl", None) is not None:
            self._compiled.add(number)
        self._modules.append((weakref.ref(module), type(module).__name__))
        self._numbers[id(module)] = (self._modules[number][0], number)
        return number

    def _describe(self) -> None:
        """Find path, parent and size of all modules that ran. Modules that are gone keep the name of their class."""
        sites = self._sites
        for _, class_name in self._modules[len(sites) :]:
            sites.append(_site("", class_name, -1))
        places: dict[int, tuple[str, int]] = {}
        names = self._variables()
        for number in self._roots:
            root = self._modules[number][0]()
            if root is not None:
                self._place(root, number, places)
                self._note_aliases(wrapped_in(root) or root)
                places[number] = (names.get(id(root), ""), -1) if places[number][1] < 0 else places[number]
        for number, (path, parent) in places.items():
            module = self._modules[number][0]()
            count, size = _size(module) if module is not None else (None, None)
            sites[number] = _site(path, sites[number].class_name, parent, count, size)
        for number, (inputs, outputs) in self._shapes.items():
            sites[number] = replace(sites[number], inputs=inputs, outputs=outputs)
        for number in self._compiled:
            sites[number] = replace(sites[number], is_compiled=True)

    def _note_aliases(self, root: torch.nn.Module) -> None:
        for alias, kind, path in paths_of_modules(root):
            is_same = self._paths.setdefault((alias, kind), path) == path
            self._paths[alias, kind] = path if is_same else None

    @property
    def aliases(self) -> tuple[tuple[str, str, str], ...]:
        """Other paths of modules that have several: the path, the class, and the path of the same module here.

        The compiler knows a module by the path with which the program called it.
        """
        return tuple((alias, kind, path) for (alias, kind), path in self._paths.items() if path not in (None, alias))

    def _variables(self) -> dict[int, str]:
        """Return under which name of the namespace the outermost modules are found: ``model``, or ``model.0``."""
        roots = {id(module) for number in self._roots if (module := self._modules[number][0]()) is not None}
        found: dict[int, str] = {}
        for name, value in list(self.namespace.items()):
            if name.startswith("_") or not is_a(value, torch.nn.Module):
                continue
            for whole, module in named_modules(value):
                path = without_wrappers(whole)
                if id(module) in roots and (not whole or id(module) not in found):
                    found[id(module)] = f"{name}.{path}" if path else name
        return found

    def _place(self, root: torch.nn.Module, number: int, places: dict[int, tuple[str, int]]) -> None:
        """Note the paths of a root and of everything in it that ran, and of what is between them."""
        if number in places:
            return
        places[number] = ("", -1)
        known = {"": number}
        for path, module in named_modules(root):
            entry = self._numbers.get(id(module))
            if not path or entry is None or entry[0]() is not module or entry[1] in {_NO_MODULE, *places}:
                continue
            above = path
            while above not in known or above == path:
                above = above.rpartition(".")[0]
            known[path] = entry[1]
            places[entry[1]] = (without_wrappers(path), known[above])


def _remove(after: RemovableHandle) -> None:
    after.remove()
    # torch leaves this entry, and would warn of it whenever a model is compiled later.
    getattr(torch_module, "_global_forward_hooks_with_kwargs", {}).pop(after.id, None)


def _with_keywords() -> dict[str, bool]:
    """Return the argument with which torch tells a hook the keyword arguments of a call, if this torch has it."""
    return {"with_kwargs": True} if features.is_known(features.KEYWORDS_OF_CALLS) else {}


def _keywords_of(caller: FrameType) -> object:
    """Return the keyword arguments of a call of which torch did not tell them, from the frame that calls the hooks."""
    return caller.f_locals.get("kwargs", ())


def _without_warning(own: set[int]) -> Callable[[], None]:
    """Keep torch from warning about hooks for all modules when a compiled model runs, if there are only ours.

    Returns a function that undoes this.
    """

    def has_other_hooks() -> bool:
        return any(set(getattr(torch_module, name, ())) - own for name in MODULE_HOOKS)

    name = "_has_any_global_hook"
    return stand_in(torch_module, name, has_other_hooks) if hasattr(torch_module, name) else lambda: None


def _site(
    path: str, class_name: str, parent: int, parameters: int | None = None, size_bytes: int | None = None
) -> ModuleSite:
    return ModuleSite(path=path, class_name=class_name, parent=parent, parameters=parameters, size_bytes=size_bytes)


def shapes_of(value: object) -> str:
    """Return the shapes of the tensors in a value, such as ``[16, 64], [16]``; those of a structure in its order.

    Equal shapes that follow one another are counted: ``[16, 64] ×3``.
    """
    shapes: list[str] = []
    open_values, looked_at = [value], 0
    while open_values and looked_at < MAX_VALUES:
        looked_at += 1
        one = open_values.pop()
        try:
            if is_a(one, torch.Tensor):
                shapes.append(str(list(one.shape)))
            else:
                open_values.extend(reversed(values_in(one, MAX_VALUES)))
        except Exception:  # noqa: BLE001, S112 - tensors of the user's own classes may raise anything
            continue
    runs = [(shape, len(list(run))) for shape, run in groupby(shapes)]
    texts = [shape if count == 1 else f"{shape} ×{count}" for shape, count in runs]
    return ", ".join(texts if len(texts) <= MAX_SHAPES else [*texts[:MAX_SHAPES], "…"])


def _size(module: torch.nn.Module) -> tuple[int, int]:
    """Return the number of elements of a module's parameters, and the bytes of these and of its buffers."""
    try:
        parameters = [parameter for _, parameter in named_parameters(module)]
        buffers = [buffer for _, buffer in named_buffers(module)]
        with unseen():
            count = sum(p.numel() for p in parameters)
            size = sum(t.numel() * t.element_size() for t in (*parameters, *buffers))
    except Exception:  # noqa: BLE001 - lazy parameters and the user's own classes may raise anything
        return 0, 0
    return count, size
