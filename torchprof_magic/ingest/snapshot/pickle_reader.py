"""Reads the plain values in a pickle without unpickling it: nothing is imported, called or constructed.

``pickle.load`` can run any code that a file contains. Memory snapshots consist of dicts, lists, tuples, strings and
numbers, so this reader supports only these.
"""

from __future__ import annotations

import pickletools
import struct
from typing import TYPE_CHECKING, Any

from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 200  # a snapshot has eight levels
# Real snapshots use 90 bytes per container and 57 per memo. More per byte is an attempt to exhaust memory.
BYTES_PER_VALUE = 8
FREE_VALUES = 100_000
LAST_PROTOCOL = 5
_CONTAINERS = (dict, list, tuple)
_NAMES = {ord(known.code): known.name for known in pickletools.opcodes}


def read_plain(data: bytes) -> Any:
    """Return the value in a pickle of protocol 2 to 5 that consists of plain values, with strings as keys.

    Raises ``IngestError`` if it holds anything else, is cut off or damaged, or would exhaust memory.
    """
    reader = _PlainReader(data)
    try:
        value = reader.read()
    except struct.error as exc:
        raise _cut_off(len(data)) from exc
    except (IndexError, KeyError, UnicodeDecodeError) as exc:
        raise (_cut_off(len(data)) if reader.at > len(data) else _damaged(reader.at)) from exc
    _check_depth(value)
    return value


class _PlainReader:
    """A pickle machine without the instructions that import or call anything."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0
        self._most = FREE_VALUES + len(data) // BYTES_PER_VALUE

    def read(self) -> Any:
        """Return the value of the whole pickle."""
        known: dict[int, Callable[[], None]] = {ord(code): getattr(self, name) for code, name in _KNOWN.items()}
        data, end = self._data, len(self._data)
        while self.at < end:
            code = data[self.at]
            self.at += 1
            if code == _STOP:
                return self._stack.pop()
            act = known.get(code)
            if act is None:
                raise self._refused(code)
            act()
        raise _cut_off(end)

    def _refused(self, code: int) -> IngestError:
        name = _NAMES.get(code)
        if name is None:
            return _damaged(self.at - 1)
        return IngestError(
            f"this pickle contains more than plain values ({name} at byte {format_count(self.at - 1)}), unlike any "
            f"memory "
            "snapshot; it was not opened, and none of its code was run"
        )

    def _take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self._data):
            raise _cut_off(len(self._data))
        return self._data[begin : self.at]

    def _number(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return value

    def _push_container(self, value: Any) -> None:
        self._containers += 1
        if self._containers > self._most:
            raise _too_many()
        self._stack.append(value)

    def _pop_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._outer.pop()
        return items

    def _target(self, kind: type) -> Any:
        target = self._stack[-1]
        if type(target) is not kind:
            raise _damaged(self.at)
        return target

    def _remember(self, key: int) -> None:
        self._memo[key] = self._stack[-1]
        if len(self._memo) > self._most:
            raise _too_many()

    def _fill(self, target: dict[str, Any], items: list[Any]) -> None:
        keys = items[::2]
        # Strings hash differently in every process; numbers could be chosen to collide in a dict.
        if len(items) % 2 or not all(type(key) is str for key in keys):
            raise _damaged(self.at)
        target.update(zip(keys, items[1::2], strict=True))

    def _proto(self) -> None:
        if self._take(1)[0] > LAST_PROTOCOL:
            raise IngestError("this pickle uses a newer protocol than this version knows; update torchprof-magic")

    def _frame(self) -> None:
        self._take(8)

    def _mark(self) -> None:
        if len(self._outer) > MAX_DEPTH:
            raise _too_deep()
        self._outer.append(self._stack)
        self._stack = []

    def _none(self) -> None:
        self._stack.append(None)

    def _true(self) -> None:
        self._stack.append(True)

    def _false(self) -> None:
        self._stack.append(False)

    def _int1(self) -> None:
        self._stack.append(self._number(_U1))

    def _int2(self) -> None:
        self._stack.append(self._number(_U2))

    def _int4(self) -> None:
        self._stack.append(self._number(_I4))

    def _long(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(_U1)), "little", signed=True))

    def _float(self) -> None:
        self._stack.append(self._number(_F8))

    def _text(self, size: struct.Struct) -> None:
        self._stack.append(str(self._take(self._number(size)), "utf-8", "surrogatepass"))

    def _text1(self) -> None:
        self._text(_U1)

    def _text4(self) -> None:
        self._text(_U4)

    def _text8(self) -> None:
        self._text(_U8)

    def _bytes1(self) -> None:
        self._stack.append(self._take(self._number(_U1)))

    def _bytes4(self) -> None:
        self._stack.append(self._take(self._number(_U4)))

    def _bytes8(self) -> None:
        self._stack.append(self._take(self._number(_U8)))

    def _empty_tuple(self) -> None:
        self._stack.append(())

    def _tuple(self) -> None:
        self._push_container(tuple(self._pop_mark()))

    def _tuple1(self) -> None:
        self._push_container((self._stack.pop(),))

    def _tuple2(self) -> None:
        last, first = self._stack.pop(), self._stack.pop()
        self._push_container((first, last))

    def _tuple3(self) -> None:
        last, middle, first = self._stack.pop(), self._stack.pop(), self._stack.pop()
        self._push_container((first, middle, last))

    def _empty_list(self) -> None:
        self._push_container([])

    def _append(self) -> None:
        value = self._stack.pop()
        self._target(list).append(value)

    def _appends(self) -> None:
        items = self._pop_mark()
        self._target(list).extend(items)

    def _empty_dict(self) -> None:
        self._push_container({})

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._fill(self._target(dict), [key, value])

    def _set_items(self) -> None:
        items = self._pop_mark()
        self._fill(self._target(dict), items)

    def _memoize(self) -> None:
        self._remember(len(self._memo))

    def _put1(self) -> None:
        self._remember(self._number(_U1))

    def _put4(self) -> None:
        self._remember(self._number(_U4))

    def _get1(self) -> None:
        self.at += 1  # two of three instructions are one of these two, so they are written for speed
        self._stack.append(self._memo[self._data[self.at - 1]])

    def _get4(self) -> None:
        self.at += 4
        self._stack.append(self._memo[int.from_bytes(self._data[self.at - 4 : self.at], "little")])


_U1, _U2, _U4, _U8, _I4, _F8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<Q", "<i", ">d"))
_STOP = ord(".")
# Every instruction that is carried out, by its letter in the file; see pickletools for what each does.
_KNOWN = {
    "\x80": "_proto", "\x95": "_frame", "(": "_mark",
    "N": "_none", "\x88": "_true", "\x89": "_false",
    "K": "_int1", "M": "_int2", "J": "_int4", "\x8a": "_long", "G": "_float",
    "\x8c": "_text1", "X": "_text4", "\x8d": "_text8", "C": "_bytes1", "B": "_bytes4", "\x8e": "_bytes8",
    ")": "_empty_tuple", "t": "_tuple", "\x85": "_tuple1", "\x86": "_tuple2", "\x87": "_tuple3",
    "]": "_empty_list", "a": "_append", "e": "_appends", "}": "_empty_dict", "s": "_set_item", "u": "_set_items",
    "\x94": "_memoize", "q": "_put1", "r": "_put4", "h": "_get1", "j": "_get4",
}  # fmt: skip


def _check_depth(value: object) -> None:
    """Refuse values nested so deeply that printing or comparing them would raise RecursionError."""
    level: list[Any] = [value]
    seen: set[int] = set()
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for outer in level:
            if type(outer) in _CONTAINERS and id(outer) not in seen:
                seen.add(id(outer))
                inner += outer.values() if isinstance(outer, dict) else outer
        level = [one for one in inner if type(one) in _CONTAINERS]
        if not level:
            return
    raise _too_deep()


def _cut_off(at: int) -> IngestError:
    return IngestError(f"the pickle is cut off at byte {format_count(at)}; copy it or write it again")


def _damaged(at: int) -> IngestError:
    return IngestError(f"the pickle is damaged near byte {format_count(at)}; copy it or write it again")


def _too_many() -> IngestError:
    return IngestError("the pickle would expand far more than any snapshot of its size, so it was not opened")


def _too_deep() -> IngestError:
    return IngestError(
        f"the pickle is nested more than {MAX_DEPTH} levels deep, unlike any snapshot, so it was not opened"
    )
