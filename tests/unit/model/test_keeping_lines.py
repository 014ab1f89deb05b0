from __future__ import annotations

import ast

import pytest

from torchprof_magic.model.keeping_lines import keeping_lines

SOURCE = """\
kept.append(x)
model.history += [x]
stats["out"].append(x)
cache[step] = y
self.total = self.total + loss
other.append(x)
ring.appendleft(kept.pop())
queue: list = []
stored.update(a=x)
"""


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("kept[…]", [1]),
        ("kept[12].grad", [1]),
        ("train(): kept[3]", [1]),
        ("model.history[3]", [2]),
        ("stats['out'][…]", [3]),
        ("cache['batch 3']", [4]),
        ("trainer.cache[…]['x']", [4]),
        ("self.total", [5]),
        ("ring[…]", [7]),
        ("keep.stored[…]", [9]),
        ("queue", []),
        ("queue[…]", []),
        ("total[…]", []),
        ("absent[…]", []),
        ("", []),
        ("<b>['", []),
        ("x" * 100_000, []),
    ],
)
def test_the_lines_that_put_something_there_are_found(path: str, lines: list[int]) -> None:
    assert keeping_lines(ast.parse(SOURCE), path) == lines
