from __future__ import annotations

import pytest

from torchprof_magic.model.line_calls import call_of_line


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("    time.sleep(0.1)", "time.sleep"),
        ("item = q.get(timeout=1)", "q.get"),
        ("with open(path) as file:", "open"),
        ("for line in file.readlines():", "file.readlines"),
        ("await asyncio.sleep(delay())", "asyncio.sleep"),  # of the two, it is the one that waits
        ("print(step); lock.acquire()", "lock.acquire"),
        ("f(x); g(x)", ""),  # either may take the time
        ("q.get(); lock.acquire()", ""),
        ("x = y + 1", ""),
        ("results = [", ""),  # part of a statement
        ("", ""),
    ],
)
def test_a_line_is_called_by_its_only_call_or_the_only_one_that_waits(text: str, name: str) -> None:
    assert call_of_line(text) == name
