"""Where the text does not tell which loop makes the steps, their first iterations do."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from test_stepping import FakeSession, Optimizer

from torchprof_magic.run.stepping import choosing
from torchprof_magic.run.stepping.choosing import Choice
from torchprof_magic.run.stepping.instrument import instrument, with_steppers
from torchprof_magic.run.stepping.plan import plan_steps

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000


class World:
    """A clock that the cell moves, and what the cell does with torch as the session sees it."""

    def __init__(self, session: FakeSession) -> None:
        self.now_ns = 1
        self._session = session

    def work(self, ms: float, *, grows: bool = True) -> None:
        """Take some time, with ops that need gradients or without."""
        self.now_ns += int(ms * MS)
        self._session.nodes += grows

    def rest(self, ms: float) -> None:
        """Take some time without an op that shows."""
        self.now_ns += int(ms * MS)

    def walk(self) -> list[int]:
        """Return what a loop can go over that the reader knows nothing of."""
        return [1, 2]

    def optimize(self) -> None:
        """Let an optimizer step."""
        for listener in self._session.listeners:
            listener(object())


class Pause:
    """Takes time where no work is written: other programs interrupt this one."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __bool__(self) -> bool:
        self._world.rest(9)
        return True


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeSession]:
    """Return a function that runs a cell, in which ``go["work"](2)`` works for 2 ms, and returns its session."""

    def run_cell(cell: str, *, may_start_late: bool = True) -> FakeSession:
        session = FakeSession()
        session.may_start_late = may_start_late
        world = World(session)
        monkeypatch.setattr(choosing, "perf_counter_ns", lambda: world.now_ns)
        source = textwrap.dedent(cell).strip("\n")
        tree = ast.parse(source)
        go = {name: getattr(world, name) for name in ("work", "rest", "optimize", "walk")}
        names: dict[str, Any] = {"go": go, "log": {"a": 1, "b": 2}, "session": SimpleNamespace(), "opt": Optimizer()}
        names["pause"] = Pause(world)
        names["rows"] = torch.zeros(9, 2)
        names["loss"] = SimpleNamespace(backward=lambda: None)
        plan = plan_steps(tree, source.splitlines(), names)
        code = compile(ast.fix_missing_locations(instrument(tree, plan)), "<cell>", "exec")
        exec(with_steppers(code, Choice(session, plan, filename="<cell>").stepper_of), names)  # noqa: S102
        for ending in session.endings:
            ending()
        return session

    return run_cell


def test_the_first_loop_whose_iteration_ran_ops_makes_the_steps(run: Callable[..., FakeSession]) -> None:
    session = run("for k in log: go['rest'](0.1)\nfor i in range(6): go['work'](2)\nfor k in log: go['work'](2)")
    assert session.notes == ["line 2"]
    assert session.calls == ["start 6 after 1", *["step"] * 5, "finish"]


def test_an_inner_loop_of_microseconds_leaves_the_steps_to_the_loop_around_it(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for i in range(5):\n  go['rest'](0)\n  for j in range(9): go['work'](0.002)")
    assert session.notes == ["line 1"]
    assert session.calls == ["start 5 after 1", *["step"] * 4, "finish"]


def test_an_inner_loop_that_takes_nearly_all_of_an_iteration_makes_the_steps(run: Callable[..., FakeSession]) -> None:
    session = run("for e in range(2):\n  go['rest'](1)\n  for j in range(9): go['work'](5)")
    assert session.notes == ["line 3"]
    assert session.calls == ["start 18 after 2", *["step"] * 16, "finish"]


def test_an_inner_loop_beside_much_other_work_does_not(run: Callable[..., FakeSession]) -> None:
    session = run("for b in range(5):\n  go['work'](40)\n  for j in range(3): go['work'](5)")
    assert session.notes == ["line 1"]


def test_a_pause_before_the_inner_loop_decides_nothing_where_no_work_stands_there(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for e in range(3):\n  if pause: pass\n  for j in range(3): go['work'](0.1)")
    assert session.notes == ["line 3"]


def test_an_optimizer_that_steps_in_an_iteration_decides_whatever_its_length(run: Callable[..., FakeSession]) -> None:
    session = run("for i in range(5):\n  go['optimize']()\n  for k in log: go['rest'](1)")
    assert session.notes == ["line 1"]


def test_an_iteration_of_which_nothing_is_seen_is_a_step_when_the_second_one_is_long(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for k in log: go['rest'](0.01)\nwhile len(log) < 9:\n  go['rest'](3)\n  log[len(log)] = 0")
    assert session.notes == ["line 2"]
    assert session.calls[0] == "start None after 2"


def test_a_loop_that_is_left_by_break_is_not_taken_for_a_running_one(run: Callable[..., FakeSession]) -> None:
    session = run(
        "for i in range(6):\n  for k in log:\n    go['rest'](0)\n    break\n  go['optimize']()\n"
        "for k in log: go['rest'](0)"
    )
    assert session.notes == ["line 1"]


def test_where_all_loops_are_one_nest_the_outermost_makes_the_steps_if_nothing_shows(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for i in range(5):\n  for k in log: go['rest'](0.01)")
    assert session.notes == ["line 1"]
    assert session.calls == ["start 5 after 1", *["step"] * 4, "finish"]
    assert run("for e in range(1):\n  for i in range(5): go['rest'](0.01)").notes == ["line 2"]


def test_a_loop_of_many_short_iterations_is_no_longer_watched(
    run: Callable[..., FakeSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(FakeSession, "made_nodes", lambda session: asked.append(1) or session.nodes)
    session = run("for i in range(5000): go['rest'](0.001)\nfor i in range(4): go['work'](2)")
    assert session.notes == ["line 2"]
    assert len(asked) < 2100


def test_a_loop_that_ends_in_its_first_iteration_makes_no_steps(run: Callable[..., FakeSession]) -> None:
    session = run("for i in range(5):\n  go['work'](2)\n  break\nfor i in range(3): go['work'](2)")
    assert session.calls == ["start 3", *["step"] * 3, "finish"]


def test_without_any_sign_nothing_is_recorded_and_that_is_said(run: Callable[..., FakeSession]) -> None:
    session = run("for k in log: go['rest'](0.01)\nfor k in log: go['rest'](0.01)")
    assert session.calls == []
    assert session.notes == ["capture.no_step_seen"]


def test_where_the_first_step_is_to_be_recorded_the_best_guess_is_taken_at_once(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for i in range(2): go['work'](2)\nfor k in log: go['work'](2)", may_start_late=False)
    assert session.calls == ["start 2", "step", "step", "finish"]


def test_the_recording_starts_over_with_the_loop_in_which_an_optimizer_steps(run: Callable[..., FakeSession]) -> None:
    session = run("for i in range(6):\n  for j in range(3):\n    go['work'](2); loss.backward()\n  go['optimize']()")
    assert session.notes == ["line 2", "over to line 1"]
    assert session.calls == ["start 6 after 1", *["step"] * 5, "finish"]
    session = run("for i in range(3): go['work'](2)\nn = 0\nwhile n < 4:\n  n += 1; go['work'](1); go['optimize']()")
    assert session.notes == ["line 1", "over to line 3"]
    assert session.calls == ["start None after 1", *["step"] * 3, "finish"]


def test_it_does_not_for_an_inner_loop_that_only_goes_over_optimizers(run: Callable[..., FakeSession]) -> None:
    outer = "for i in range(6):\n  for j in range(3):\n    go['work'](2); loss.backward()\n"
    session = run(f"{outer}  for o in go['walk'](): go['optimize']()")
    assert session.notes == ["line 2", "over to line 1"]
    session = run(f"{outer}  for o in go['walk']():\n    go['work'](2); go['optimize']()")
    assert session.notes == ["line 2", "over to line 4"]


def test_one_of_two_things_that_are_done_with_a_batch_is_no_step(run: Callable[..., FakeSession]) -> None:
    session = run("for b in range(5):\n  for key in ('work', 'work'):\n    go[key](b + 2); go['optimize']()")
    assert session.notes == ["line 1"]
    session = run("for rate in range(5):\n  for b in (1, 2):\n    go['work'](2); go['optimize']()")
    assert session.notes == ["line 2"]


def test_it_does_not_once_an_optimizer_has_stepped_in_the_loop(run: Callable[..., FakeSession]) -> None:
    session = run("for i in range(6):\n  for j in range(3):\n    go['optimize'](); loss.backward()\n  go['optimize']()")
    assert session.notes == ["line 2"]


def test_what_follows_a_break_out_of_the_loop_is_outside_of_it(run: Callable[..., FakeSession]) -> None:
    session = run(
        "for i in range(6):\n  for j in range(9):\n    loss.backward()\n    if j == 2: break\n  go['optimize']()"
    )
    assert session.notes == ["line 2", "over to line 1"]


def test_it_does_not_for_a_loop_whose_last_iteration_has_ended(run: Callable[..., FakeSession]) -> None:
    session = run("for i in range(3): go['work'](2)\nfor i in range(1): go['optimize']()")
    assert session.notes == ["line 1", "capture.optimizer_elsewhere 1 step 1 , first by line 2"]


def test_it_does_not_where_the_first_step_is_to_be_recorded(run: Callable[..., FakeSession]) -> None:
    cell = "for i in range(3):\n  for j in range(2): loss.backward()\n  go['optimize']()"
    session = run(cell, may_start_late=False)
    assert session.notes == ["capture.optimizer_elsewhere 3 steps 2 , first by line 3"]


@pytest.mark.parametrize("empty", ["for i in []", "while len(log) > 9", "for i in (j for j in log if j == 'z')"])
def test_a_loop_without_iterations_leaves_the_steps_to_the_next_one(
    run: Callable[..., FakeSession], empty: str
) -> None:
    session = run(f"{empty}: opt.step()\nfor i in range(4): opt.step()")
    assert session.notes[-1] == "line 2"
    assert session.calls == ["start 4", *["step"] * 4, "finish"]
    session = run(f"{empty}: opt.step()\nfor i in range(4): go['work'](2)")
    assert session.notes[-1] == "line 2"
    assert session.calls == ["start 4 after 1", *["step"] * 3, "finish"]


def test_a_loop_that_trains_is_waited_for_unless_it_stands_in_the_branch_that_does_not_run(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for i in range(3): go['work'](2)\nfor i in range(4): opt.step()")
    assert session.calls == ["start 4", *["step"] * 4, "finish"]
    both = "if len(log) > 1:\n  for i in range(3): {}\nelse:\n  for i in range(4): {}"
    session = run(both.format("go['work'](2)", "opt.step()"))
    assert session.calls == ["start 3 after 1", *["step"] * 2, "finish"]
    session = run("if not log:\n  for i in range(4): opt.step()\nfor i in range(3): go['work'](2)")
    assert session.calls == ["start 3 after 1", *["step"] * 2, "finish"]


@pytest.mark.parametrize("ms", [0.01, 5])
@pytest.mark.parametrize(
    "loops",
    [
        "for b in [rows] * 6:\n  for row in b: {}",
        "for b in [rows] * 6:\n  for row in range(len(b)): {}",
        "for b, c in [(rows, rows)] * 6:\n  for row in c: {}",
        "for i in range(6):\n  for row in [rows][i - i]: {}",
    ],
)
def test_an_inner_loop_over_parts_of_a_batch_makes_no_steps_however_long(
    run: Callable[..., FakeSession], loops: str, ms: float
) -> None:
    assert run(loops.format(f"go['work']({ms})")).notes == ["line 1"]
    stepping = run(loops.format(f"go['work']({ms}); go['optimize']()"))
    assert stepping.notes == ["line 2"]


@pytest.mark.parametrize(
    "loops",
    [
        "for e in range(6):\n  for b in range(9): {}",
        "for part in [[rows] * 4, [rows] * 4]:\n  for b in part: {}",
        "for key in 'ab':\n  for b in dict(a=range(4), b=range(4))[key]: {}",
        "for key in 'ab':\n  made = range(4)\n  for b in made: {}",
    ],
)
def test_one_over_batches_does(run: Callable[..., FakeSession], loops: str) -> None:
    assert run(loops.format("go['work'](0.1)")).notes[-1].startswith("line 2" if "made" not in loops else "line 3")


def test_more_iterations_are_measured_where_their_length_is_near_the_limit(run: Callable[..., FakeSession]) -> None:
    # The first two look long enough for steps; the shortest of eight does not.
    session = run("for e in range(3):\n  for j in range(9): go['work'](0.006 if j < 2 else 0.004)")
    assert session.notes == ["line 1"]
    session = run("for e in range(3):\n  for j in range(9): go['work'](0.006)")
    assert (session.notes, session.calls[0]) == (["line 2"], "start 27 after 8")


def test_optimizers_that_step_outside_of_the_loop_only_are_told_with_their_line(
    run: Callable[..., FakeSession],
) -> None:
    session = run("for i in range(3): go['work'](2)\nif True:\n  go['optimize']()\n  go['optimize']()")
    assert session.notes == ["capture.optimizer_elsewhere 2 steps 1 , first by line 3"]
    assert run("for i in range(3): go['optimize']()\ngo['optimize']()").notes == []


def test_results_and_exceptions_of_watched_loops_are_as_without(run: Callable[..., FakeSession]) -> None:
    run(
        """
        seen, rest = [], iter(range(5))
        for k in log: go["rest"](0)
        for i in rest:
            go["work"](2)
            if i == 2: continue
            seen.append(i)
        else:
            seen.append("else")
        assert seen == [0, 1, 3, 4, "else"], seen
        n = 0
        while n < 5:
            n += 1
            go["work"](2)
            if n == 3: break
        else:
            raise AssertionError
        try:
            for x in 5: go["work"](1)
        except TypeError as error:
            assert "not iterable" in str(error)
        """
    )
