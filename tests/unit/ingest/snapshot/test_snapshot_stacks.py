"""The stacks of a snapshot become one tree of frames, callers first."""

from __future__ import annotations

import pytest
from made_snapshots import Entry, frame

from torchprof_magic.ingest.snapshot import stacks
from torchprof_magic.ingest.snapshot.stacks import StackTree
from torchprof_magic.model.errors import IngestError


def functions(tree: StackTree, row: int | None) -> list[str]:
    """Return the functions of a stack, callers first."""
    frame, found = tree.frame(), []
    while row is not None and row >= 0:
        found.append(frame["function"].cast(str)[row])
        row = frame["parent"][row]
    return found[::-1]


A, B = frame("a.py", 1, "outer"), frame("b.py", 2, "inner")
GATHER, MALLOC, EVAL, START = (
    frame("??", 0, name) for name in ("torch::unwind::unwind()", "malloc", "_PyEval_EvalFrameDefault", "_start")
)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([B, A], ["outer", "inner"]),
        ([GATHER, MALLOC, B, EVAL, START, A], ["outer", "inner", "malloc"]),
        ([GATHER, MALLOC, START], ["_start", "malloc"]),
        ([frame("C:\\x\\c.py", 3, "w"), frame("<ipython-input>", 4, "<module>")], ["<module>", "w"]),
        ([GATHER], []),
        ([5, {"name": 5}], ["unknown"]),
        ("text", []),
        (None, []),
    ],
)
def test_callers_come_first_and_the_interpreter_is_left_out(frames: object, expected: list[str]) -> None:
    tree = StackTree()
    assert functions(tree, tree.row_of(frames)) == expected


def test_equal_beginnings_are_shared() -> None:
    tree = StackTree()
    rows = [tree.row_of(frames) for frames in ([B, A], [A], [MALLOC, A], [dict(B), dict(A)])]
    assert rows[0] == rows[3]
    assert tree.frame()["name"].to_list() == ["a.py(1): outer", "b.py(2): inner", "malloc"]
    assert tree.frame()["parent"].to_list() == [-1, 0, 0]
    assert tree.frame().row(1) == (0, "b.py(2): inner", "b.py", 2, "inner")
    assert tree.frame().row(2)[2:4] == (None, None)


def test_of_a_deep_stack_the_innermost_frames_are_kept() -> None:
    deep = [frame("a.py", line, "f") for line in range(stacks.MAX_DEPTH + 50)]
    tree = StackTree()
    tree.row_of(deep)
    assert tree.frame().height == stacks.MAX_DEPTH
    assert tree.frame()["line"].to_list()[-1] == 0


def test_texts_that_cannot_be_encoded_are_escaped() -> None:
    tree = StackTree()
    tree.row_of([frame("a\udcff.py", -3, "f\udcff")])
    assert tree.frame().row(0) == (-1, "a\\udcff.py(0): f\\udcff", "a\\udcff.py", 0, "f\\udcff")


def test_many_long_texts_that_share_their_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "MAX_CHARS", 10_000)
    long: list[Entry] = [frame("a" * 4_000 + ".py", line, "f") for line in range(5)]
    with pytest.raises(IngestError, match="expand far more than those of any program"):
        StackTree().row_of(long)
