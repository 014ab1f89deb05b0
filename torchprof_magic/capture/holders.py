"""Which variables and attributes of the program keep blocks of memory alive, from the live objects of this process."""

from __future__ import annotations

import gc
import re
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import CellType, FrameType, FunctionType, MethodType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from torchprof_magic.capture.torch_api.storages import storage_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Objects between a tensor and the variable that holds it.
MAX_DEPTH = 14
# Objects of one level whose referrers are looked for; more are as many elements of the same containers.
MAX_LEVEL = 4_000
# Nodes of autograd that are looked at for each tensor.
MAX_NODES = 200_000
MAX_KEY_CHARS = 30
_PACKAGE = f"{__package__.partition('.')[0]}."
_GRAPH = "graph"
_TENSOR = "tensor"
_UNNAMED = "unnamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What keeps a tensor alive.

    ``path`` reads like code: ``losses[3]`` or ``model.cache['x']``. ``kind`` is ``variable`` (of a module or notebook),
    ``local``, ``class``, ``traceback`` or ``unnamed``. ``way`` is ``tensor`` if the tensor at the end of the path has
    one of the ``addresses``, and ``graph`` if the graph of autograd behind it does.
    """

    path: str
    kind: str
    way: str
    addresses: tuple[int, ...]


def find_holders(addresses: Iterable[int]) -> list[Holder]:
    """Return what holds storages at these addresses now, one entry for each tensor and way.

    Looks at all objects of the process, which takes from a tenth of a second to some seconds. Tensors that only C++
    code holds are not found.
    """
    wanted = frozenset(addresses)
    tensors = _live_tensors()
    held: list[torch.Tensor] = []
    ways: list[dict[str, set[int]]] = []
    with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - in use since torch 2.0 under this name
        for tensor in tensors:
            own = {_address(tensor)} & wanted
            # A loss that is kept is wanted itself, and so may be what its graph keeps.
            behind = set() if tensor.grad_fn is None else _in_graph(tensor.grad_fn, wanted) - own
            if own or behind:
                held.append(tensor)
                ways.append({_TENSOR: own, _GRAPH: behind})
    search = _Search(held, {id(tensors), id(held)})
    holders = [
        Holder(path=path, kind=kind, way=way, addresses=tuple(sorted(found)))
        for (path, kind), of_tensor in zip(search.paths(), ways, strict=True)
        for way, found in of_tensor.items()
        if found
    ]
    # The graph of autograd keeps tensors of which no variable is left. They say nothing where a variable is known.
    named = {address for holder in holders if holder.kind != _UNNAMED for address in holder.addresses}
    return [holder for holder in holders if holder.kind != _UNNAMED or not named.issuperset(holder.addresses)]


def _live_tensors() -> list[torch.Tensor]:
    return [value for value in gc.get_objects() if issubclass(type(value), torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    try:
        return storage_address(tensor)
    except RuntimeError:
        return 0  # it has no storage


def _in_graph(node: Any, wanted: frozenset[int]) -> set[int]:
    """Return which of the addresses the nodes of a graph have saved. What hooks have packed is not looked at."""
    found: set[int] = set()
    seen, open_nodes = {node}, [node]
    while open_nodes and len(seen) < MAX_NODES:
        one = open_nodes.pop()
        found.update(address for address in _saved(one) if address in wanted)
        for following, _ in one.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                open_nodes.append(following)
    return found


def _saved(node: Any) -> Iterator[int]:
    for name in _saved_names(type(node)):
        try:
            value = getattr(node, name, None)
        except RuntimeError:  # backward has released them
            continue
        for saved in value if isinstance(value, (tuple, list)) else (value,):
            if saved is None or getattr(saved, "unpack_hook", None) is not None:
                continue
            tensor = getattr(saved, "data", None)
            if isinstance(tensor, torch.Tensor):
                yield _address(tensor)


_NAMES: dict[type, tuple[str, ...]] = {}


def _saved_names(node: type) -> tuple[str, ...]:
    if node not in _NAMES:
        _NAMES[node] = tuple(name for name in dir(node) if name.startswith("_raw_saved_"))
    return _NAMES[node]


class _Link(NamedTuple):
    """That one object holds another, by the positions of both, and how that is written."""

    holder: int
    label: str


class _Search:
    """Walks from tensors to what refers to them, level by level, until the names of variables."""

    def __init__(self, held: list[torch.Tensor], own: set[int]) -> None:
        self._objects: list[object] = list(held)
        self._place = {id(value): place for place, value in enumerate(self._objects)}
        self._links: dict[int, list[_Link]] = {}
        self._roots: dict[int, tuple[str, str]] = {}
        self._count = len(held)
        self._running = [frame for frame in _running_frames() if not self._is_ours(frame)]
        self._running_ids = set(map(id, self._running))
        modules = sorted(
            sys.modules.items(), key=lambda item: item[0] == "__main__"
        )  # multiprocessing has another name
        self._globals = {id(vars(module)): name for name, module in modules if isinstance(module, ModuleType)}
        del modules
        self._own = own | {id(self._objects), id(self.__dict__), id(held), id(self._running)}
        level: list[object] = list(held)
        for _ in range(MAX_DEPTH):
            level = self._climb(level)
            if not level:
                break

    def paths(self) -> list[tuple[str, str]]:
        """Return the shortest path to each tensor, and the kind of its root."""
        return [self._path(place) for place in range(self._count)]

    def _climb(self, level: list[object]) -> list[object]:
        """Note what refers to the objects of a level, and return what of that is to be climbed further."""
        places = {id(value): self._place[id(value)] for value in level}
        self._own.add(id(level))
        # Python does not say what the frames refer to that are being executed.
        referrers = [*gc.get_referrers(*level[:MAX_LEVEL]), *self._running]
        self._own.add(id(referrers))
        following: list[object] = []
        for referrer in referrers:
            if id(referrer) in self._own or self._is_ours(referrer):
                continue
            links = [(places[id(child)], label) for label, child in _parts(referrer) if id(child) in places]
            if not links:
                continue
            is_new = id(referrer) not in self._place
            place = self._place.setdefault(id(referrer), len(self._objects))
            if is_new:
                self._objects.append(referrer)
                if not self._is_root(referrer, place):
                    following.append(referrer)
            for child, label in links:
                if child != place:
                    self._links.setdefault(child, []).append(_Link(place, label))
        return following

    def _is_ours(self, value: object) -> bool:
        """Return whether it is a frame of this package, or not an object of the program at all."""
        if isinstance(value, FrameType):
            return str(value.f_globals.get("__name__", "")).startswith(_PACKAGE)
        return value is self

    def _is_root(self, value: object, place: int) -> bool:
        if id(value) in self._globals:
            name = self._globals[id(value)]
            self._roots[place] = ("" if name == "__main__" else f"{name}.", "variable")
        elif isinstance(value, FrameType) and id(value) in self._running_ids:
            is_module = value.f_code.co_name == "<module>"
            self._roots[place] = ("" if is_module else f"{value.f_code.co_name}(): ", "local")
        elif isinstance(value, type):
            self._roots[place] = (value.__qualname__, "class")
        return place in self._roots

    def _path(self, place: int) -> tuple[str, str]:
        """Return the shortest path from a root, by breadth first."""
        queue = deque([(place, "")])
        seen = {place}
        best: tuple[tuple[int, str], str, str] | None = None
        last = ""
        while queue:
            at, path = queue.popleft()
            for link in self._links.get(at, ()):
                text = link.label + path
                if link.holder in self._roots:
                    root, kind = self._roots[link.holder]
                    kind = "traceback" if _THROUGH_TRACEBACK in text and kind != "local" else kind
                    name = _written(root, text)
                    rank = int(name.startswith("_") or kind == "local"), name
                    if best is None or rank[0] < best[0][0]:
                        best = rank, name, kind
                elif link.holder not in seen:
                    seen.add(link.holder)
                    queue.append((link.holder, text))
                    last = text
            if best is not None and best[0][0] == 0:
                break
        if best is not None:
            return best[1], best[2]
        return _written(type(self._objects[place]).__name__ if not last else "…", last), _UNNAMED


_DICT = "\0dict"
_CLOSURE = "\0closure"
_CELL = re.compile(rf"{_CLOSURE}(.*?){_CLOSURE}\[(\d+)\]")
_THROUGH_TRACEBACK = "\0traceback"


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    """Yield what an object holds, and how that is written behind the object."""
    if isinstance(value, dict):
        for key, one in list(value.items()):
            yield f"[{_key(key)}]", one
            yield ".keys()", key
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{place}]", one) for place, one in enumerate(list(value)))
    elif isinstance(value, FrameType):
        yield from ((f"{_THROUGH_TRACEBACK}{_DICT}[{name!r}]", one) for name, one in list(value.f_locals.items()))
    elif isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif isinstance(value, CellType):
        yield "", value.cell_contents
    elif isinstance(value, (TracebackType, BaseException)):
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


def _key(key: object) -> str:
    text = repr(key) if isinstance(key, (str, int, float, bool, type(None))) else f"<{type(key).__name__}>"
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
    joined = joined.replace("._modules['", ".").replace("']._", "._")
    if root and not root.endswith((".", " ")):
        return root + joined
    return root + joined.removeprefix(".")


def _running_frames() -> list[FrameType]:
    """Return the frames that are being executed, on any thread."""
    found: list[FrameType] = []
    for top in sys._current_frames().values():  # noqa: SLF001 - the documented way to the frames of other threads
        frame: FrameType | None = top
        while frame is not None:
            found.append(frame)
            frame = frame.f_back
    return found
