"""Where the tensors of models and optimizers are in memory, noted while memory is recorded.

An allocation in a trace has an address and a size, but not what it is for. Only the live objects tell: the parameters
and buffers of a module, the gradients when an optimizer steps, its state after that, and the arguments of a model.
Their addresses are noted at these moments, and no tensor is kept alive.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from contextlib import ExitStack
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch

from torchprof_magic.capture.parts import TAGS
from torchprof_magic.capture.torch_api.compiling import watch_optimizers
from torchprof_magic.capture.torch_api.module_tree import named_buffers, named_parameters
from torchprof_magic.capture.torch_api.patching import unseen
from torchprof_magic.capture.torch_api.storages import is_plain, storage_address, tensors_in
from torchprof_magic.capture.watch.variables import UserFrames, tensors_of_frame
from torchprof_magic.model.recording import TagBatch, TaggedTensor
from torchprof_magic.system.process.lookups import attributes_of, is_a

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from torchprof_magic.capture.parts import Parts

# More addresses than this are not kept: 16 bytes each.
MAX_TAGS = 4_000_000
# In a step, so many calls of functions and modules are looked at for what their tensors are called.
MOST_LOOKS = 2_000
_NOTHING = 0
# The category of a tensor of which only the name and the shape are known.
_NAMED = "unknown"

_Named = tuple[str, torch.Tensor]


class MemoryTags:
    """Notes the addresses of tensors by what they are for.

    ``outermost`` is the id of the module whose forward is running and lies in no other, 0 for none. The hooks of
    ``ModuleMarks`` set it and call ``note_inputs``, so that modules have one pair of hooks. After an error nothing more
    is noted, and the error becomes a problem.
    """

    def __init__(self, parts: Parts) -> None:
        self.is_on = False
        self.outermost = _NOTHING
        self._parts = parts
        # No objects: in a function for ``sys.settrace``, torch.compile would compile what makes them.
        self._batches: list[tuple[int, str, array[int], array[int]]] = []
        self._count = 0
        self._kinds: dict[tuple[str, object, torch.dtype, object, int], int] = {}
        self._roots: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._optimizers: dict[int, _Optimizer] = {}
        self._names: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._scanned: set[int] = set()
        self._prefixes: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._frames = UserFrames()
        self._looks = 0

    def watch(self) -> Callable[[], None]:
        """Register the hooks of all optimizers, and return a function that removes them."""
        with ExitStack() as undo:
            undo.callback(self.switch, is_on=False)
            undo.callback(watch_optimizers(self._before_step, self._after_step))
            return undo.pop_all().close

    def switch(self, *, is_on: bool) -> None:
        """Begin or end to note addresses."""
        self.is_on = is_on and not self._parts.is_off(TAGS)
        self.outermost = _NOTHING

    def begin_cycle(self) -> None:
        """Forget what was noted before, and note what exists now: a recording is about to begin."""
        self._batches, self._count = [], 0
        self._note_all()
        self.note_variables()

    def take(self) -> tuple[TagBatch, ...]:
        """Note what exists at the end of a recording, and return what was noted during it."""
        self._note_all()
        noted, self._batches, self._count = self._batches, [], 0
        return tuple(
            TagBatch(time_ns=time_ns, category=category, addresses=addresses, kinds=kinds)
            for time_ns, category, addresses, kinds in noted
        )

    @property
    def tagged(self) -> tuple[TaggedTensor, ...]:
        """The kinds of tensors, in the order of their numbers."""
        return tuple(
            TaggedTensor(
                name=name,
                shape=str(list(shape)),  # type: ignore[call-overload]
                dtype=str(dtype).removeprefix("torch."),
                device=_device_name(device),
                size_bytes=size_bytes,
            )
            for name, shape, dtype, device, size_bytes in self._kinds
        )

    def note_inputs(self, module: torch.nn.Module, arguments: object, keywords: object) -> None:
        """Note the arguments of an outermost forward; and its parameters and buffers, once a recording."""
        self._guarded(self._forward, module, (arguments, keywords))

    def note_result(self, result: object) -> None:
        """Note the shapes of what a module returned."""
        if self._may_look():
            self._guarded(self._unnamed, result)

    def note_return(self, frame: FrameType) -> None:
        """Note what a function that returns calls its tensors; only in a function for ``sys.settrace``."""
        if self._may_look():
            self._guarded(self._named, frame)

    def note_variables(self) -> None:
        """Note what the user's code calls its tensors in the frames that run on this thread."""
        self._looks = 0
        if not self._parts.is_off(TAGS):
            self._guarded(self._variables)

    def _may_look(self) -> bool:
        self._looks += 1
        return self.is_on and self._looks <= MOST_LOOKS

    def _unnamed(self, result: object) -> None:
        self._note(_NAMED, [("", value) for value in tensors_in(result) if is_plain(type(value))])

    def _named(self, frame: FrameType) -> None:
        self._note(_NAMED, tensors_of_frame(frame, is_traced=True))

    def _variables(self) -> None:
        for frame in self._frames.above(sys._getframe(1)):  # noqa: SLF001 - the documented way to the callers
            self._note(_NAMED, tensors_of_frame(frame))

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if self.is_on:
            self._guarded(self._gradients, optimizer)
            self._guarded(self._variables)

    def _after_step(self, optimizer: torch.optim.Optimizer, arguments: tuple[object, ...], keywords: object) -> None:
        if self.is_on:
            self._guarded(self._stepped, optimizer, bool(arguments or keywords))

    def _guarded(self, note: Callable[..., None], *arguments: object) -> None:
        """Call ``note`` unseen by modes and tensor classes; an error ends the tags and not the program."""
        try:
            with unseen():
                note(*arguments)
        except Exception as exc:  # noqa: BLE001 - classes of the user's own may raise anything
            self.is_on = False
            self._parts.fail(TAGS, exc)

    def _forward(self, module: torch.nn.Module, arguments: object) -> None:
        key = id(module)
        known = self._roots.get(key)
        if known is None or known() is not module:
            self._roots[key] = weakref.ref(module)
            self._scanned.discard(key)
        if key not in self._scanned:
            self._scanned.add(key)
            self._note_module(module)
        found = [
            ("", value)
            for value in tensors_in(arguments)
            if value.grad_fn is None and not is_a(value, torch.nn.Parameter)
        ]
        self._note("input", found)

    def _note_module(self, module: torch.nn.Module) -> None:
        parameters, buffers = (_unwrapped(named(module)) for named in (named_parameters, named_buffers))
        prefix = self._prefix(module) if parameters else ""
        for name, parameter in parameters:
            known = self._names.get(id(parameter))
            if known is None or known[0]() is not parameter:
                self._names[id(parameter)] = weakref.ref(parameter), prefix + name
        self._note("parameter", [(self._name(parameter), parameter) for _, parameter in parameters])
        self._note("buffer", [(prefix + name, buffer) for name, buffer in buffers])
        for optimizer in self._optimizers.values():
            optimizer.forget()  # the names may be known only now

    def _prefix(self, module: torch.nn.Module) -> str:
        """Return what the names of a model begin with: nothing for the first one, its class and a number for others."""
        known = self._prefixes.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        others = sum(text.startswith(type(module).__name__) for _, text in self._prefixes.values())
        number = f"_{others}" if others else ""
        prefix = f"{type(module).__name__}{number}." if self._prefixes else ""
        self._prefixes[id(module)] = weakref.ref(module), prefix
        return prefix

    def _name(self, parameter: torch.Tensor) -> str:
        known = self._names.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else ""

    def _gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the gradient of each parameter, by calls of C alone where the parameters are those of last time."""
        known, parameters = self._known(optimizer), _parameters_of(optimizer)
        gradients = [parameter.grad for parameter in parameters]
        probe = _probe(parameters)
        addresses = _addresses(gradients) if probe == known.probe else None
        if addresses is not None:
            self._keep("gradient", addresses, known.kinds)
            return
        pairs = zip(parameters, gradients, strict=True)
        found = [(self._name(parameter), gradient) for parameter, gradient in pairs if gradient is not None]
        kinds = self._note("gradient", found)
        if len(kinds) == len(parameters):
            known.probe, known.kinds = probe, kinds

    def _stepped(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        known = self._known(optimizer)
        if has_closure:  # its gradients were made inside the step
            self._gradients(optimizer)
        parameters = _parameters_of(optimizer)
        addresses = _addresses((*parameters[:1], *parameters[-1:]))
        if addresses is None or addresses != known.addresses:
            known.addresses = addresses
            self._note("parameter", [(self._name(parameter), parameter) for parameter in parameters])
        entries = len(optimizer.state)
        if entries != known.entries:
            known.entries = entries
            self._note_state(optimizer)

    def _note_state(self, optimizer: torch.optim.Optimizer) -> None:
        found: list[_Named] = []
        for parameter, state in list(optimizer.state.items()):
            name = self._name(parameter) if is_a(parameter, torch.Tensor) else ""
            values = dict.items(state) if is_a(state, dict) else (("", state),)
            for label, value in values:
                key = label if isinstance(label, str) else type(label).__name__
                found += [(f"{name}: {key}" if name else key, tensor) for tensor in tensors_in(value)]
        self._note("optimizer_state", found)

    def _known(self, optimizer: torch.optim.Optimizer) -> _Optimizer:
        known = self._optimizers.get(id(optimizer))
        if known is None or known.ref() is not optimizer:
            known = self._optimizers[id(optimizer)] = _Optimizer(optimizer)
        return known

    def _note_all(self) -> None:
        """Note all tensors of the known modules and optimizers that still exist."""
        self._scanned.clear()
        if not self._parts.is_off(TAGS):
            self._guarded(self._scan)

    def _scan(self) -> None:
        for key, ref in list(self._roots.items()):
            if (module := ref()) is not None:
                self._scanned.add(key)
                self._note_module(module)
        for known in list(self._optimizers.values()):
            if (optimizer := known.ref()) is not None:
                known.forget()
                self._gradients(optimizer)
                self._note("parameter", [(self._name(one), one) for one in _parameters_of(optimizer)])
                self._note_state(optimizer)
                known.entries = len(optimizer.state)

    def _note(self, category: str, found: Iterable[_Named]) -> array[int]:
        """Note tensors with their names, one by one, and return their kinds. Those without a storage are left out."""
        addresses, kinds = array("q"), array("q")
        for name, one in found:
            tensor = attributes_of(one).get("_local_tensor", one)  # of a DTensor
            try:
                address = storage_address(tensor)
                kind = self._kind(name, tensor)
            except RuntimeError:
                continue  # it is sparse, lazy, or a wrapper
            addresses.append(address)
            kinds.append(kind)
        self._keep(category, addresses, kinds)
        return kinds

    def _keep(self, category: str, addresses: array[int], kinds: array[int]) -> None:
        self._count += len(addresses)
        if not addresses:
            return
        if self._count > MAX_TAGS:
            self.is_on = False
            return
        self._batches.append((perf_counter_ns(), category, addresses, kinds))

    def _kind(self, name: str, tensor: torch.Tensor) -> int:
        key = name, tensor.shape, tensor.dtype, tensor.device, tensor.untyped_storage().nbytes()
        return self._kinds.setdefault(key, len(self._kinds))


class _Optimizer:
    """What is known of an optimizer, so that little is looked at in each step.

    ``probe`` tells which parameters have gradients of these ``kinds``. ``addresses`` are those of the first and
    the last parameter: what moves parameters, moves all. ``entries`` is the size of its state.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.ref = weakref.ref(optimizer)
        self.forget()

    def forget(self) -> None:
        """Look at everything again the next time."""
        self.probe: tuple[int, ...] = ()
        self.kinds = array("q")
        self.addresses: array[int] | None = None
        self.entries = -1


def _unwrapped(named: Iterable[_Named]) -> list[_Named]:
    """Return tensors with their names, without the attribute that torch.compile puts around a module."""
    return [(name.replace("_orig_mod.", ""), tensor) for name, tensor in named]


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _probe(parameters: list[torch.Tensor]) -> tuple[int, ...]:
    """Return numbers that change when other parameters are optimized."""
    return (len(parameters), *map(id, (*parameters[:1], *parameters[-1:])))


def _addresses(tensors: Sequence[torch.Tensor | None]) -> array[int] | None:
    """Return the address of each storage, or None if a tensor is missing, has no storage, or begins inside it."""
    if not all(tensor is None or is_plain(type(tensor)) for tensor in tensors):
        return None
    try:
        if any(map(torch.Tensor.storage_offset, tensors)):  # type: ignore[arg-type]
            return None
        return array("q", map(torch.Tensor.data_ptr, tensors))  # type: ignore[arg-type]
    except (RuntimeError, TypeError):
        return None


def _device_name(device: Any) -> str:
    """Return the name of a device as traces have it."""
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"
