"""Tests of how the source of a recorded cell is parsed."""

from __future__ import annotations

from torchprof_magic.model.cell_tree import tree_of_cell


def test_magics_are_no_python_and_lines_keep_their_numbers() -> None:
    tree = tree_of_cell("%%torchprof\nif True:\n    !ls\nx = 1")
    assert tree is not None
    assert [node.lineno for node in tree.body] == [1, 2, 4]


def test_a_cell_that_cannot_be_parsed_has_no_tree() -> None:
    assert tree_of_cell("this is (no Python") is None
    assert tree_of_cell("\0") is None
