from __future__ import annotations

import sys

from torchprof_magic.capture.watch import lines
from torchprof_magic.capture.watch.lines import MARK_NS, MAX_MARKS_OF_STEP, MOST_OF_STEP, LineMarks


def noted(marks: LineMarks, count: int) -> None:
    for line in range(count):
        marks.mark(line + 1)


def test_marks_of_recorded_steps_are_kept_and_others_dropped() -> None:
    marks = LineMarks()
    marks.switch(is_on=True)
    noted(marks, 3)
    marks.end_step(10**9, is_kept=False)
    noted(marks, 2)
    marks.end_step(10**9, is_kept=True)
    assert marks.take().tolist()[1::2] == [1, 2]
    assert marks.take().tolist() == []


def test_nothing_is_noted_while_it_is_off() -> None:
    marks = LineMarks()
    noted(marks, 2)
    assert not marks.pending


def test_marks_in_inner_loops_end_when_they_take_too_much_of_a_step() -> None:
    marks = LineMarks()
    marks.switch(is_on=True)
    noted(marks, 100)
    limit_ns = int(100 * MARK_NS / MOST_OF_STEP)
    marks.end_step(limit_ns + 1, is_kept=True)
    assert marks.is_inner_on
    noted(marks, 100)
    marks.end_step(limit_ns - 1, is_kept=True)
    assert (marks.is_on, marks.is_inner_on) == (True, False)


def test_lines_of_inner_loops_are_told_once_a_step_is_kept_without_their_marks() -> None:
    marks = LineMarks()
    marks.switch(is_on=True)
    for line in (1, 2, 3, 3, 3, 4, 3, 2):
        marks.mark(line)
    marks.end_step(1, is_kept=True)
    assert not marks.left_out  # the step has its marks
    marks.mark(2)
    marks.end_step(1, is_kept=False)
    assert not marks.left_out
    marks.mark(2)
    marks.end_step(1, is_kept=True)
    assert marks.left_out == {3}


def test_a_step_with_more_marks_than_there_is_room_for_is_counted() -> None:
    marks = LineMarks()
    marks.switch(is_on=True)
    noted(marks, MAX_MARKS_OF_STEP + 5)
    assert len(marks.pending) == 2 * MAX_MARKS_OF_STEP
    marks.end_step(10**12, is_kept=True)
    assert marks.lost == 1


def test_a_recording_keeps_a_bounded_number_of_marks(monkeypatch: object) -> None:
    del monkeypatch
    most, lines.MAX_MARKS = lines.MAX_MARKS, 10
    try:
        marks = LineMarks()
        marks.switch(is_on=True)
        for _ in range(8):
            noted(marks, 5)
            marks.end_step(10**12, is_kept=True)
        assert len(marks.take()) <= 2 * 10 + 2 * 5
        assert marks.lost > 0
    finally:
        lines.MAX_MARKS = most


def test_unseen_marks_note_the_same_and_no_profiler_of_python_hears_of_them() -> None:
    marks = LineMarks()
    marks.be_unseen()
    marks.switch(is_on=True)
    heard: list[object] = []
    sys.setprofile(lambda _frame, event, what: heard.append(what) if event == "c_call" else None)
    try:
        marks.append(marks.clock())
        marks.append(7)
    finally:
        sys.setprofile(None)
    marks.end_step(10**9, is_kept=True)
    assert [getattr(what, "__name__", "") for what in heard] == ["setprofile"]
    time_ns, line = marks.take()
    assert line == 7
    assert time_ns > line
