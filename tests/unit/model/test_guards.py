"""What torch says of guards that failed, in the words of several versions."""

from __future__ import annotations

import pytest

from torchprof_magic.model.compile_ids import frame_of, region_of, times_before
from torchprof_magic.model.guards import failed_guard


@pytest.mark.parametrize(
    ("reason", "text", "value", "cause"),
    [
        (
            "tensor 'x' size mismatch at index 0. expected 3, actual 4",
            "tensor 'x' size mismatch at index 0",
            "3",
            "size",
        ),
        (
            "tensor 'L['x']' dtype mismatch. expected Float, actual Double",
            "tensor 'x' dtype mismatch",
            "Float",
            "dtype",
        ),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0", "tensor 'x' requires_grad mismatch", "", None),
        ("L['n'] == 3     ", "n == 3", "", "value"),
        ("G['scale'] == 1   # return x * scale  # m.py:7 in f", "G['scale'] == 1", "", "global"),
        ("len(L['items']) == 2", "len(items) == 2", "", "length"),
        ("self.number == 0  # return x  # m.py:3 in forward (HINT: more)", "self.number == 0", "", "attribute"),
        ("___check_type_id(L['x'], 94)", "___check_type_id(x, 94)", "", "type"),
        ("GLOBAL_STATE changed: grad_mode", "GLOBAL_STATE changed: grad_mode", "", "mode"),
        (
            "BACKEND_MATCH failure: torch.compile detected",
            "BACKEND_MATCH failure: torch.compile detected",
            "",
            "backend",
        ),
        ("something new", "something new", "", "other"),
        ("", "", "", ""),
    ],
)
def test_a_guard_is_its_text_its_value_and_its_cause(reason: str, text: str, value: str, cause: str | None) -> None:
    found = failed_guard(reason)
    assert found.text == text
    assert value in found.value
    assert found.cause == (cause if cause is not None else "requires_grad")


def test_the_line_is_that_of_the_code_or_of_the_stack_that_follows() -> None:
    said = "n == 3      # return x * n  # lib/model.py:15 in f"
    assert failed_guard(said)[3:] == ("lib/model.py", 15)
    stack = f'{said}\nUser stack trace:\n  File "/home/me/lib/model.py", line 15, in f\n    return x * n'
    assert failed_guard(stack)[3:] == ("/home/me/lib/model.py", 15)
    assert failed_guard("n == 3")[3:] == ("", None)


def test_numbers_of_regions_are_told_apart() -> None:
    assert [region_of(text) for text in ("3/1", "3/1_2", "!0/3/1", "[3/1]", "")] == ["3/1", "3/1", "!0/3/1", "", ""]
    assert (frame_of("3/1"), frame_of("!0/3/1"), frame_of("")) == ("3", "!0/3", "")
    assert (times_before("3/0"), times_before("3/4"), times_before("")) == (0, 4, 0)
