"""Which variables and attributes of the program keep blocks of memory alive, from the live objects of this process."""

from __future__ import annotations

import gc
import re
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import CO_OPTIMIZED
from itertools import islice
from types import CellType, FrameType, FunctionType, MethodType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from torchprof_magic.capture.torch_api.graphs import graph_nodes, kept_by_node
from torchprof_magic.capture.torch_api.patching import unseen
from torchprof_magic.capture.torch_api.storages import gradient_of, live_tensors, storage_address, values_in
from torchprof_magic.capture.watch.keeping import KeepingLines
from torchprof_magic.system.process.lookups import is_a

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import torch

    from torchprof_magic.capture.watch.keeping import KeptAt

# Objects between a tensor and the variable that holds it.
MAX_DEPTH = 14
# Objects of one level whose referrers are looked for; more are as many elements of the same containers.
MAX_LEVEL = 4_000
# Nodes of autograd that are looked at for each tensor.
MAX_NODES = 200_000
MAX_KEY_CHARS = 30
# Of the copy of the variables of a frame: by the frame, by a variable, and by the question for their number.
_REFERENCES_OF_COPY = 3
_PACKAGE = f"{__package__.partition('.')[0]}."
_GRAPH = "graph"
_TENSOR = "tensor"
_UNNAMED = "unnamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What keeps a tensor alive.

    ``path`` reads like code: ``losses[3]`` or ``model.cache['x']``. ``kind`` is ``variable`` (of a module or notebook),
    ``local``, ``class``, ``traceback`` or ``unnamed``. ``way`` is ``tensor`` if the tensor at the end of the path has
    one of the ``addresses``, and ``graph`` if the graph of autograd behind it does. ``kept_at`` is the line that puts
    tensors there, if one is found.
    """

    path: str
    kind: str
    way: str
    addresses: tuple[int, ...]
    kept_at: KeptAt | None = None


def find_holders(addresses: Iterable[int]) -> list[Holder]:
    """Return what holds storages at these addresses now, one entry for each tensor and way.

    Looks at all objects of the process, which takes from a tenth of a second to some seconds. Tensors that only C++
    code holds are not found.
    """
    wanted = frozenset(addresses)
    held: list[torch.Tensor] = []
    ways: list[dict[str, set[int]]] = []
    hidden: list[_Hidden] = []
    with unseen():
        for tensor, owner in _tensors_with_gradients():
            own = {_address(tensor)} & wanted
            # A loss that is kept is wanted itself, and so may be what its graph keeps.
            behind = set() if tensor.grad_fn is None else _in_graph(tensor.grad_fn, wanted) - own
            if own or behind:
                held.append(tensor)
                ways.append({_TENSOR: own, _GRAPH: behind})
                if owner is not None:
                    hidden.append(_Hidden(tensor, owner, f"{_DICT}['grad']"))
    paths = _paths(held, hidden)
    if any(kind == _UNNAMED for _, kind in paths):
        arrays = _arrays_of(held)
        paths = _paths(held, [*hidden, *arrays]) if arrays else paths
    holders = [
        Holder(path=path, kind=kind, way=way, addresses=tuple(sorted(found)))
        for (path, kind), of_tensor in zip(paths, ways, strict=True)
        for way, found in of_tensor.items()
        if found
    ]
    # The graph of autograd keeps tensors of which no variable is left. They say nothing where a variable is known.
    named = {address for holder in holders if holder.kind != _UNNAMED for address in holder.addresses}
    holders = [holder for holder in holders if holder.kind != _UNNAMED or not named.issuperset(holder.addresses)]
    lines = KeepingLines()
    holders = [replace(holder, kept_at=lines.find(holder.path)) for holder in holders]
    return sorted(holders, key=lambda holder: (holder.addresses, holder.path, holder.way))


def _tensors_with_gradients() -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Yield the tensors of the process, and the gradients of leaves with their owners."""
    tensors = live_tensors()
    owners = [(gradient, tensor) for tensor in tensors if (gradient := gradient_of(tensor)) is not None]
    of_gradients = {id(gradient) for gradient, _ in owners}
    yield from ((tensor, None) for tensor in tensors if id(tensor) not in of_gradients)
    yield from owners


def _paths(held: list[torch.Tensor], hidden: list[_Hidden]) -> list[tuple[str, str]]:
    search = _Search(held, hidden)
    try:
        return search.paths()
    finally:
        search.close()


class _Hidden(NamedTuple):
    """That one object holds another, where the garbage collector does not see it, and how that is written."""

    child: object
    holder: object
    label: str


def _arrays_of(tensors: list[torch.Tensor]) -> list[_Hidden]:
    """Return the arrays of numpy that use the memory of these tensors, and what holds them.

    The garbage collector does not know arrays, nor dictionaries and tuples of nothing but such objects.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return []
    values = [
        *gc.get_referents(*gc.get_objects()),
        *(one for frame in _running_frames() for one in locals_of(frame).values()),
    ]
    # Types are compared by ``is`` and by id: a metaclass may have its own ``__eq__`` and ``__hash__``.
    plain = [one for one in values if (type(one) is dict or type(one) is tuple) and one and not gc.is_tracked(one)]
    values += gc.get_referents(*plain)
    types = {id(kind): kind for kind in map(type, values)}
    kinds = {key for key, kind in types.items() if issubclass(kind, numpy.ndarray)}
    arrays = _sharing({id(value): value for value in values if id(type(value)) in kinds}, tensors)
    del values
    shared = {id(one.holder) for one in arrays}
    around = {id(one): one for one in plain if not shared.isdisjoint(map(id, gc.get_referents(one)))}
    inside = ((child, one, label) for one in around.values() for label, child in _parts(one) if id(child) in shared)
    return [*arrays, *(_Hidden(*link) for link in inside)]


def _sharing(arrays: dict[int, Any], tensors: list[torch.Tensor]) -> list[_Hidden]:
    """Return which arrays use the memory of tensors: directly, or by way of another array."""
    wanted, kinds = set(map(id, tensors)), {type(array) for array in arrays.values()}
    found: list[_Hidden] = []
    for array in arrays.values():
        chain = [array]
        while type(chain[-1].base) in kinds:
            chain.append(chain[-1].base)
        if id(chain[-1].base) in wanted:
            found += [_Hidden(one.base, one, "") for one in chain]
    return list({id(one.holder): one for one in found}.values())


def _address(tensor: torch.Tensor) -> int:
    try:
        return storage_address(tensor)
    except RuntimeError:
        return 0  # it has no storage


def _in_graph(node: Any, wanted: frozenset[int]) -> set[int]:
    """Return which of the addresses the nodes of a graph keep in use."""
    nodes = graph_nodes(node, set(), MAX_NODES)
    return {address for one in nodes for tensor in kept_by_node(one) if (address := _address(tensor)) in wanted}


class _Link(NamedTuple):
    """That one object holds another, by the positions of both, and how that is written."""

    holder: int
    label: str


class _Search:
    """Walks from tensors to what refers to them, level by level, until the names of variables."""

    def __init__(self, held: list[torch.Tensor], hidden: Sequence[_Hidden] = ()) -> None:
        self._objects: list[object] = list(held)
        self._place = {id(value): place for place, value in enumerate(self._objects)}
        self._links: dict[int, list[_Link]] = {}
        self._roots: dict[int, tuple[str, str]] = {}
        self._count = len(held)
        self._hidden: dict[int, list[_Hidden]] = {}
        for one in hidden:
            self._hidden.setdefault(id(one.child), []).append(one)
        self._running = _running_frames()
        self._running_ids = set(map(id, self._running))
        modules = sorted(
            sys.modules.items(), key=lambda item: item[0] == "__main__"
        )  # multiprocessing has another name
        self._globals = {id(vars(module)): name for name, module in modules if is_a(module, ModuleType)}
        del modules
        # What the search itself refers to tensors with. It is kept, or another object could get its id.
        self._own: dict[int, object] = {}
        own: tuple[object, ...] = (held, hidden, self._objects, self.__dict__, self._running, *self._hidden.values())
        self._own.update((id(one), one) for one in own)
        del own
        level: list[object] = list(held)
        for _ in range(MAX_DEPTH):
            level = self._climb(level)
            if not level:
                break

    def close(self) -> None:
        """Let go of the objects that were seen: a reference cycle through them would keep them, and be found later."""
        for one in (self._objects, self._links, self._hidden, self._running, self._own):
            one.clear()

    def paths(self) -> list[tuple[str, str]]:
        """Return the shortest path to each tensor, and the kind of its root."""
        return [self._path(place) for place in range(self._count)]

    def _climb(self, level: list[object]) -> list[object]:
        """Note what refers to the objects of a level, and return what of that is to be climbed further."""
        places = {id(value): self._place[id(value)] for value in level}
        self._own[id(level)] = level
        # Python does not say what the frames refer to that are being executed.
        referrers = [*gc.get_referrers(*level[:MAX_LEVEL]), *self._running]
        self._own[id(referrers)] = referrers
        following: list[object] = []
        for referrer in referrers:
            if id(referrer) in self._own or self._is_ours(referrer):
                continue
            links = [(places[id(child)], label) for label, child in _parts(referrer) if id(child) in places]
            self._note(referrer, links, following)
        for child in level:
            for one in self._hidden.get(id(child), ()):
                self._note(one.holder, [(places[id(child)], one.label)], following)
        return following

    def _note(self, holder: object, links: list[tuple[int, str]], following: list[object]) -> None:
        """Note what an object holds, by place and label, and whether its own holders are to be looked for."""
        if not links:
            return
        is_new = id(holder) not in self._place
        place = self._place.setdefault(id(holder), len(self._objects))
        if is_new:
            self._objects.append(holder)
            if not self._is_root(holder, place):
                following.append(holder)
        for child, label in links:
            if child != place:
                self._links.setdefault(child, []).append(_Link(place, label))

    def _is_ours(self, value: object) -> bool:
        """Return whether it is a frame of this package, or not an object of the program at all."""
        if is_a(value, FrameType):
            return str(value.f_globals.get("__name__", "")).startswith(_PACKAGE)
        return value is self

    def _is_root(self, value: object, place: int) -> bool:
        if id(value) in self._globals:
            name = self._globals[id(value)]
            self._roots[place] = ("" if name == "__main__" else f"{name}.", "variable")
        elif is_a(value, FrameType) and id(value) in self._running_ids:
            is_module = value.f_code.co_name == "<module>"
            self._roots[place] = ("" if is_module else f"{value.f_code.co_name}(): ", "local")
        elif is_a(value, type):
            self._roots[place] = (value.__qualname__, "class")
        return place in self._roots

    def _path(self, place: int) -> tuple[str, str]:
        """Return the shortest path from a root, by breadth first; of equally long ones always the same."""
        level, seen = {place: ""}, {place}
        best: tuple[bool, int, str, str] | None = None
        while level:
            following: dict[int, str] = {}
            for link, path in ((link, path) for at, path in level.items() for link in self._links.get(at, ())):
                text = link.label + path
                if link.holder in self._roots:
                    candidate = self._named(link.holder, text)
                    best = candidate if best is None else min(best, candidate)
                elif link.holder not in seen:
                    following[link.holder] = min(text, following.get(link.holder, text), key=_by_length)
            if (best is not None and not best[0]) or not following:
                break
            seen.update(following)
            level = following
        if best is not None:
            return best[2], best[3]
        # Nothing refers to the last of them that has a name.
        names = [_written(type(self._objects[last]).__name__, path) for last, path in level.items()]
        return min(names, key=_by_length), _UNNAMED

    def _named(self, root: int, path: str) -> tuple[bool, int, str, str]:
        """Return a path from a root as it is written, with its kind; the smallest is best."""
        name, kind = self._roots[root]
        kind = "traceback" if _THROUGH_TRACEBACK in path and kind != "local" else kind
        written = _written(name, path)
        return written.startswith("_") or kind == "local", len(written), written, kind


def _by_length(text: str) -> tuple[int, str]:
    return len(text), text


_DICT = "\0dict"
_CLOSURE = "\0closure"
_CELL = re.compile(rf"{_CLOSURE}(.*?){_CLOSURE}\[([0-9]+)\]")
_THROUGH_TRACEBACK = "\0traceback"
_OF_MODULE = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    """Yield what an object holds, and how that is written behind the object."""
    if is_a(value, dict):
        for key, one in list(dict.items(value)):
            yield f"[{key_text(key)}]", one
            yield ".keys()", key
    elif is_a(value, (list, tuple)):
        yield from ((f"[{place}]", one) for place, one in enumerate(values_in(value, None)))
    elif is_a(value, deque):
        yield from ((f"[{place}]", one) for place, one in enumerate(list(deque.__iter__(value))))
    elif is_a(value, FrameType):
        yield from ((f"{_THROUGH_TRACEBACK}{_DICT}[{name!r}]", one) for name, one in locals_of(value).items())
    elif is_a(value, FunctionType):
        yield from _parts_of_function(value)
    elif is_a(value, MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif is_a(value, CellType):
        yield "", value.cell_contents
    elif is_a(value, (TracebackType, BaseException)):
        yield from (("", one) for one in gc.get_referents(value))
    else:
        yield from _attributes(value)


def _parts_of_function(value: FunctionType) -> Iterator[tuple[str, object]]:
    yield f"{_CLOSURE}{'|'.join(value.__code__.co_freevars)}{_CLOSURE}", value.__closure__
    yield "", value.__defaults__
    yield _DICT, value.__dict__


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object, whether Python keeps them in a dictionary or not."""
    attributes: object = None
    with suppress(AttributeError, TypeError):
        attributes = object.__getattribute__(value, "__dict__")
    known = set()
    if isinstance(attributes, dict):
        yield _DICT, attributes
        for name, one in list(attributes.items()):
            known.add(id(one))
            yield f"{_DICT}[{name!r}]", one
    for one in gc.get_referents(value):
        if id(one) not in known and one is not attributes:
            yield "", one


def key_text(key: object) -> str:
    """Return a key of a dictionary as code, without code of the user's: the type stands for one that is not plain."""
    kind = type(key)
    is_plain = kind is str or kind is int or kind is float or kind is bool or key is None
    text = repr(key) if is_plain else f"<{type(key).__name__}>"
    return text if len(text) <= MAX_KEY_CHARS else f"{text[:MAX_KEY_CHARS]}…"


def _written(root: str, path: str) -> str:
    """Return a path as code: ``['name']`` behind a dictionary of attributes or variables is a name."""
    text = f"{_DICT}{path}" if not path.startswith(_DICT) else path
    text = text.replace(_THROUGH_TRACEBACK, "")
    text = _CELL.sub(lambda found: f"{_DICT}['{found[1].split('|')[int(found[2])]}']", text)
    parts = []
    for part in islice(text.split(_DICT), 1, None):
        name, quote, rest = part[2:].partition("']") if part.startswith("['") else ("", "", part)
        parts.append(f".{name}{rest}" if quote else part)
    joined = "".join(parts)
    joined = _OF_MODULE.sub(r".\1", joined)
    if root and not root.endswith((".", " ")):
        return root + joined
    return root + joined.removeprefix(".")


def _running_frames() -> list[FrameType]:
    """Return the frames of the program that are being executed, on any thread.

    Nothing here refers to a frame of this package when it ends: such a frame would be part of a reference cycle, and
    keep the tensors that were looked at.
    """
    found: list[FrameType] = []
    tops = sys._current_frames()  # noqa: SLF001 - the documented way to the frames of other threads
    while tops:
        frame: FrameType | None = tops.popitem()[1]
        while frame is not None:
            if not str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE):
                found.append(frame)
            frame = frame.f_back
    return found


def locals_of(frame: FrameType) -> dict[str, object]:
    """Return the variables of a frame. Python 3.12 and older keep a copy for this, which would keep their values.

    In the copy may also be what ``exec`` has added to it, which stays.
    """
    values, code = frame.f_locals, frame.f_code
    found = dict(values)
    is_copy = code.co_flags & CO_OPTIMIZED and isinstance(values, dict)
    if is_copy and sys.getrefcount(values) <= _REFERENCES_OF_COPY:
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            values.pop(name, None)
    return found
