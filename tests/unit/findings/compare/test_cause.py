"""The cause of a change is the row that makes most of the difference of the steps."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from torchprof_magic.findings.compare.cause import cause_of, new_or_gone, only_of_one
from torchprof_magic.model.shapes import Column, Table

MS = 1_000_000
TIMES = tuple(Column(name=name, title=name, unit="ns", definition="") for name in ("before_ns", "after_ns", "delta_ns"))


def table(before_ms: list[int], after_ms: list[int], status: str = "both", **names: list[object]) -> Table:
    """A table of changed times with the columns ``names``."""
    times = {"before_ns": [ms * MS for ms in before_ms], "after_ns": [ms * MS for ms in after_ms]}
    frame = pl.DataFrame({**names, **times}).with_columns(
        delta_ns=pl.col("after_ns") - pl.col("before_ns"), status=pl.lit(status)
    )
    return Table(frame=frame, columns=TIMES, sort_by="delta_ns")


def test_a_line_that_explains_as_much_as_any_op_is_named_first_with_its_text() -> None:
    lines = table([0], [3], "new", line=[9], source=["    time.sleep(0.003)"], file=["In [0]"])
    ops = table([5, 1], [9, 1], name=["aten::mm", "aten::add"])
    cause = cause_of({"Ops": ops, "Lines": lines}, 4 * MS)
    # The op makes 4 of 4 ms, and the line 3, which is less than four fifths of that.
    assert cause == ("Ops", "Mostly op aten::mm: 5 ms → 9 ms per step.")
    cause = cause_of(
        {"Ops": replace(ops, frame=ops.frame.with_columns(delta_ns=pl.lit(3 * MS, pl.Int64))), "Lines": lines}, 4 * MS
    )
    assert cause == ("Lines", "Mostly line 9, time.sleep(0.003), which is new: 3 ms per step.")


def test_of_what_both_runs_do_nothing_is_a_cause_among_what_only_one_does() -> None:
    ops = only_of_one(table([1], [5], name=["aten::mm"]))
    lines = only_of_one(table([5], [0], "gone", line=[9], source=["sleep()"], file=["In [0]"]))
    waits = only_of_one(replace(ops, frame=table([1], [5], name=["sleep"]).frame.drop("status")))
    assert cause_of({"Ops": ops, "Waits": waits}, 4 * MS) is None
    assert cause_of({"Ops": ops, "Lines": lines}, -6 * MS) == (
        "Lines",
        "Mostly line 9, sleep(), which is gone: 5 ms per step.",
    )


def test_what_is_new_or_gone_is_told_where_the_change_of_the_steps_may_be_chance() -> None:
    lines = table([0], [3], "new", line=[9], source=["    sleep(3)"], file=["In [0]"])
    ops = table([5, 1], [0, 0], "gone", name=["aten::mm", "aten::add"])
    tables = {"Ops": ops, "Lines": lines}
    assert new_or_gone(tables, 60 * MS) == ("Lines", "New: line 9, sleep(3), 3 ms per step.")
    # The line is less than a twentieth of 80 ms, and the op is more.
    assert new_or_gone(tables, 80 * MS) == ("Ops", "Gone: op aten::mm, 5 ms per step.")
    assert new_or_gone(tables, 101 * MS) is None
    assert new_or_gone({"Ops": table([9], [1], name=["aten::mm"])}, 10 * MS) is None


def test_two_rows_that_make_the_change_together_are_both_told_the_largest_first() -> None:
    # 6 of 10 ms are less than four fifths, and 3 ms are more than a fifth of 6: together 90 %.
    ops = table([1, 1], [7, 4], name=["aten::mm", "aten::add"])
    said = "Largest changes are op aten::mm, +6 ms, and op aten::add, +3 ms: 90 % of the change."
    assert cause_of({"Ops": ops}, 10 * MS) == ("Ops", said)
    # 8 of 10 ms are enough, and 1 ms beside 6 is not worth a word.
    for after in ([9, 4], [7, 2]):
        cause = cause_of({"Ops": table([1, 1], after, name=["aten::mm", "aten::add"])}, 10 * MS)
        assert cause is not None
        assert cause.words.startswith("Mostly op aten::mm: 1 ms")


def test_what_is_new_is_told_with_what_makes_as_much_of_the_change() -> None:
    lines = table([14], [19], line=[3], source=["loss = net(x)"], file=["cell"]).frame
    new = table([0], [4], "new", line=[12], source=["sleep(4)"], file=["cell"])
    tables = {"Lines": replace(new, frame=pl.concat([lines, new.frame]))}
    both = "line 3, loss = net(x), +5 ms, and line 12, sleep(4), which is new, +4 ms"
    said = f"Largest changes are {both}: 90 % of the change."
    assert new_or_gone(tables, 20 * MS, 10 * MS) == ("Lines", said)
    # What is new comes first where it makes more, and alone where the other makes less than a fifth of it.
    less = replace(new, frame=pl.concat([lines.with_columns(delta_ns=pl.lit(3 * MS, pl.Int64)), new.frame]))
    cause = new_or_gone({"Lines": less}, 20 * MS, 10 * MS)
    assert cause is not None
    assert cause.words.startswith("Largest changes are line 12, sleep(4), which is new, +4 ms, and line 3, ")
    little = replace(new, frame=pl.concat([lines.with_columns(delta_ns=pl.lit(MS // 2, pl.Int64)), new.frame]))
    assert new_or_gone({"Lines": little}, 20 * MS, 10 * MS) == ("Lines", "New: line 12, sleep(4), 4 ms per step.")
    # Two rows can make more than the steps changed by, where others went the other way.
    assert new_or_gone(tables, 20 * MS, 8 * MS) == (
        "Lines",
        said.replace("90 % of the change", "more than the whole change"),
    )
    # What is new explains no step that became shorter, and alone it is told as before.
    for difference_ms in (-10, 0):
        alone = new_or_gone(tables, 20 * MS, difference_ms * MS)
        assert alone == ("Lines", "New: line 12, sleep(4), 4 ms per step.")


def test_a_row_that_went_the_other_way_or_makes_less_than_half_is_no_cause() -> None:
    assert cause_of({"Ops": table([9], [1], name=["aten::mm"])}, 4 * MS) is None
    assert cause_of({"Ops": table([1], [2], name=["aten::mm"])}, 4 * MS) is None
    assert cause_of({"Ops": table([9], [1], name=["aten::mm"])}, 0) is None
    faster = cause_of({"Ops": table([9, 0], [1, 2], name=["aten::mm", "aten::add"])}, -6 * MS)
    assert faster is not None
    assert faster.words == "Mostly op aten::mm: 9 ms → 1 ms per step."


def test_a_line_without_text_is_called_by_its_file_and_a_module_by_its_path() -> None:
    lines = table([1], [5], line=[42], source=[None], file=["/home/me/train.py"])
    modules = table([1], [5], path=["net.0"], class_name=["Conv2d"])
    assert cause_of({"Lines": lines}, 4 * MS) == ("Lines", "Mostly line me/train.py:42: 1 ms → 5 ms per step.")
    assert cause_of({"Modules": modules}, 4 * MS) == ("Modules", "Mostly module net.0: 1 ms → 5 ms per step.")
