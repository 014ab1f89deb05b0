"""The pickle reader reads plain data, and refuses everything else without running it."""

from __future__ import annotations

import os
import pickle
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from amount import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from torchprof_magic.ingest.snapshot import pickle_reader
from torchprof_magic.ingest.snapshot.pickle_reader import MAX_DEPTH, read_plain
from torchprof_magic.model.errors import IngestError

PROTOCOLS = (2, 3, 4, 5)
PLAIN: dict[str, Any] = {
    "none": None,
    "bools": [True, False],
    "ints": [0, 255, 256, 65536, -1, 2**31 - 1, -(2**31), 2**31, 2**64 - 1, -(2**63), 2**200],
    "floats": [0.0, -1.5, 1e300, float("inf")],
    "texts": ["", "a", "名前", "\ud800", "x" * 300, "x" * 70_000],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "empty": [[], {}],
}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner, max_size=5).map(tuple)  # lengths 0 to 5
    ),
)


def tried(count: int) -> settings:
    return settings(
        max_examples=examples(count),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def same(left: object, right: object) -> bool:
    """Tell whether two values are equal in kind, too: True is not 1, and (1,) is not [1]."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def is_plain(value: object, depth: int = 0) -> bool:
    """Tell whether a value is made of nothing but the kinds that a snapshot has."""
    if depth > MAX_DEPTH:  # it holds itself
        return True
    if type(value) is dict:
        return all(type(key) is str and is_plain(inner, depth + 1) for key, inner in value.items())
    if type(value) in (list, tuple):
        return all(is_plain(inner, depth + 1) for inner in value)  # type: ignore[attr-defined]
    return type(value) in (str, bytes, int, float, bool, type(None))


@tried(400)
@given(VALUES, st.sampled_from(PROTOCOLS))
@example(PLAIN, 2)
@example(PLAIN, 3)
@example(PLAIN, 4)
@example(PLAIN, 5)
def test_plain_values_are_read_as_pickle_itself_reads_them(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert same(read_plain(data), pickle.loads(data))  # noqa: S301 - written in the line above


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_bytes_of_every_length_are_read(protocol: int) -> None:
    value = [b"", b"\0" * 255, b"\1" * 256, b"\2" * 70_000]
    assert read_plain(pickle.dumps(value, protocol)) == value


def test_sizes_of_eight_bytes_are_read() -> None:
    assert read_plain(b"\x80\x04\x8d" + struct.pack("<Q", 3) + b"abc.") == "abc"
    assert read_plain(b"\x80\x04\x8e" + struct.pack("<Q", 3) + b"abc.") == b"abc"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_list_that_is_referenced_twice_is_one_list(protocol: int) -> None:
    shared = ["a"] * 300
    found = read_plain(pickle.dumps([shared, shared] + [f"text {n}" for n in range(300)] * 2, protocol))
    assert found[0] is found[1]
    assert found[2:302] == found[302:]


def test_a_list_that_holds_itself_is_read_and_ends() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    found = read_plain(pickle.dumps(loop, 4))
    assert found[0] == 1
    assert found[1] is found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_cut_at_any_byte_raises_our_error(protocol: int) -> None:
    data = pickle.dumps({**PLAIN, "texts": ["名前"], "shared": [PLAIN["ints"]] * 3}, protocol)
    for end in range(len(data)):
        with pytest.raises(IngestError):
            read_plain(data[:end])


@tried(1500)
@given(st.binary(max_size=60))
def test_random_bytes_raise_our_error_or_give_a_plain_value(data: bytes) -> None:
    with suppress(IngestError):
        assert is_plain(read_plain(b"\x80\x04" + data))


@tried(1500)
@given(st.data())
def test_a_damaged_byte_raises_our_error_or_gives_a_plain_value(data: st.DataObject) -> None:
    whole = bytearray(pickle.dumps({**PLAIN, "texts": ["名前"]}, data.draw(st.sampled_from(PROTOCOLS))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(2, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(IngestError):
        assert is_plain(read_plain(bytes(whole)))


class Touches:
    """What a hostile pickle is made of: loading it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_that_calls_something_is_refused_and_calls_nothing(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "made"
    data = pickle.dumps({"segments": [Touches(target)]}, protocol)
    with pytest.raises(
        IngestError, match=r"more than plain values \((GLOBAL|STACK_GLOBAL) at byte .* none of its code"
    ):
        read_plain(data)
    assert not target.exists()
    pickle.loads(data)  # noqa: S301 - it would have worked, so the test can fail
    assert target.exists()


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("GLOBAL", b"cos\nsystem\n."),
        ("STACK_GLOBAL", b"\x8c\x02os\x8c\x06system\x93."),
        ("INST", b"(ios\nsystem\n."),
        ("OBJ", b"(o."),
        ("REDUCE", b")R."),
        ("BUILD", b"}}b."),
        ("NEWOBJ", b"))\x81."),
        ("NEWOBJ_EX", b"))}\x92."),
        ("EXT1", b"\x82\x01."),
        ("EXT2", b"\x83\x01\0."),
        ("EXT4", b"\x84\x01\0\0\0."),
        ("PERSID", b"Psome id\n."),
        ("BINPERSID", b"NQ."),
        ("NEXT_BUFFER", b"\x97."),
        ("READONLY_BUFFER", b"N\x98."),
        ("BYTEARRAY8", b"\x96\1\0\0\0\0\0\0\0a."),
        ("EMPTY_SET", b"\x8f."),
        ("FROZENSET", b"(\x91."),
        ("LONG", b"L1L\n."),
        ("LONG4", b"\x8b\xff\xff\xff\x7f."),
        ("INT", b"I1\n."),
        ("DUP", b"N2."),
    ],
)
def test_every_instruction_that_creates_no_plain_value_is_refused_by_name(name: str, program: bytes) -> None:
    with pytest.raises(IngestError, match=rf"more than plain values \({name} at byte 2\)|\({name} at byte \d+\)"):
        read_plain(b"\x80\x04" + program)


@pytest.mark.parametrize(
    "program",
    [
        b"N",  # no end
        b".",  # nothing to return
        b"a.", b"Na.", b"NNa.",  # an append to nothing, or to what is no list
        b"e.", b"](e", b"N(e.",
        b"}(Nu.", b"}(KANu.", b"}(]Nu.", b"u.", b"s.", b"}NNs.",  # keys without values, or that are no texts
        b"\x85.", b"N\x86.", b"NN\x87.", b"t.",
        b"\x94.", b"q\1.", b"h\1.", b"j\xff\xff\xff\xff.",  # memos of nothing
        b"\xff.",  # no instruction at all
        b"\x8c\x02\xff\xfe.",  # no UTF-8
        b"X\xff\xff\xff\xff.", b"\x8d" + b"\xff" * 8 + b".", b"\x8e" + b"\xff" * 8 + b".",  # longer than the file
        b"\x80\x63N.",  # a protocol that does not exist
    ],
)  # fmt: skip
def test_a_pickle_with_invalid_instructions_raises_our_error(program: bytes) -> None:
    with pytest.raises(IngestError):
        read_plain(b"\x80\x04" + program)


@pytest.mark.parametrize(
    "deep",
    [
        b"]" * 5000 + b"a" * 4999,  # lists
        b")" + b"\x85" * 5000,  # tuples
        b"(" * 5000,  # marks
        b"}" + b"X\1\0\0\0a}" * 5000 + b"s" * 5000,  # dicts
    ],
)
def test_what_is_nested_too_deeply_is_refused(deep: bytes) -> None:
    with pytest.raises(IngestError, match=f"nested more than {MAX_DEPTH} levels deep"):
        read_plain(b"\x80\x04" + deep + b".")


@pytest.mark.parametrize("bomb", [b"](" + b"]" * 400_000 + b"e.", b"N" + b"\x94" * 400_000 + b"."])
def test_a_pickle_that_would_exhaust_memory_is_refused(monkeypatch: pytest.MonkeyPatch, bomb: bytes) -> None:
    # 400,000 bytes allow 50,000 containers or memos besides the free ones.
    monkeypatch.setattr(pickle_reader, "FREE_VALUES", 1000)
    with pytest.raises(IngestError, match="far more than any snapshot"):
        read_plain(b"\x80\x04" + bomb)


def test_lists_that_share_lists_are_read_without_expanding_them() -> None:
    # Thirty lists, each of the one before ten times: 10^30 when written out, 31 lists in memory.
    layers = b"".join(b"](" + b"h\0" * 10 + b"eq\0" for _ in range(30))
    found = read_plain(b"\x80\x04]q\0" + layers + b".")
    assert len(found) == 10
    assert found[0] is found[9]
