"""What every step leaves behind: growth, or blocks in the place of older ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from support import allocation, annotation, make_trace, span

from torchprof_magic.findings.advice import find_advice
from torchprof_magic.findings.savings.table import savings_table
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.trace import FRAME_SCHEMAS, TAGS_SCHEMA
from torchprof_magic.tables.memory.in_use import memory_frame, memory_peaks, memory_series
from torchprof_magic.tables.memory.leaks import leaks_table, leaks_view
from torchprof_magic.tables.memory.starting_level import starting_note

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

STEPS = 5
STEP_US = 100
# Address, bytes, whether it was there before, whether it is at the end, and when it went in µs.
Storage = tuple[int, int, bool, bool, float | None]


def change(at_us: float, address: int, delta: int, device: int = 0) -> dict[str, Any]:
    event = allocation(at_us, delta, device=device)
    event["args"]["Addr"] = address
    return event


def kept_in_each(first_address: int, size: int, at_us: int = 20, op: str = "aten::clone") -> list[dict[str, Any]]:
    """A block of each step that stays."""
    starts = [STEP_US * number for number in range(STEPS)]
    ops = [span(op, start + at_us - 5, 8) for start in starts]
    return [*ops, *(change(start + at_us, first_address + at, size) for at, start in enumerate(starts))]


def run(*events: dict[str, Any]) -> Trace:
    steps = [annotation(f"ProfilerStep#{number}", STEP_US * number, STEP_US - 10) for number in range(STEPS)]
    return make_trace(*steps, *events)


def live(trace: Trace, *storages: Storage) -> Trace:
    """A run that has looked at its own objects; all blocks that it keeps were found at its end."""
    kept = [(row["address"], row["delta_bytes"], False, True, None) for row in trace.memory.to_dicts()]
    rows = [(*row[:4], None if row[4] is None else int(row[4] * 1000), 0) for row in (*storages, *kept)]
    frame = pl.DataFrame(rows, schema=FRAME_SCHEMAS["storages"], orient="row")
    return replace(trace, storages=frame, meta=replace(trace.meta, knows_storages=True))


def replaced(first_address: int, size: int, at_us: float = 25, steps: int = STEPS) -> list[Storage]:
    """Storages from before of which each step releases one."""
    return [(first_address + number, size, True, False, STEP_US * number + at_us) for number in range(steps)]


def growing(trace: Trace) -> list[tuple[str, int, int, str]]:
    return leaks_table(trace).frame.select("op", "bytes_per_step", "steps", "certainty").rows()


def test_blocks_that_each_replace_an_older_one_are_no_growth() -> None:
    assert growing(live(run(*kept_in_each(1000, 64)), *replaced(9000, 64))) == []


def test_blocks_that_replace_nothing_are_growth_for_certain() -> None:
    trace = live(run(*kept_in_each(1000, 64)), (9000, 64, True, True, None))
    assert growing(trace) == [("aten::clone", 64, STEPS, "measured")]


def test_without_the_live_objects_growth_on_the_host_is_only_possible() -> None:
    assert growing(run(*kept_in_each(1000, 64))) == [("aten::clone", 64, STEPS, "possible")]


def test_a_ring_beside_a_list_of_the_same_size_is_told_from_it() -> None:
    trace = run(*kept_in_each(1000, 64, at_us=20), *kept_in_each(2000, 64, at_us=50, op="aten::add"))
    assert growing(live(trace, *replaced(9000, 64, at_us=55))) == [("aten::clone", 64, STEPS, "measured")]


def test_a_place_that_grows_in_two_cycles_is_one_row_and_a_step_leaves_as_much_as_in_one() -> None:
    one = run(*kept_in_each(1000, 64))
    end_ns, events = 1000 * STEP_US * STEPS, one.events.height
    later = {
        "steps": [pl.col("number") + STEPS, pl.col("start_ns") + end_ns, pl.col("end_ns") + end_ns],
        "memory": [pl.col("time_ns") + end_ns, pl.col("address") + 500, pl.col("event") + events],
        "events": [pl.col("start_ns") + end_ns],
    }
    cycle = pl.lit(1).cast(pl.Int32).alias("cycle")
    frames = {}
    for name, changes in later.items():
        frame = getattr(one, name)
        own = [change for change in changes if change.meta.output_name() in frame.columns]
        again = frame.with_columns(*own, *([cycle] if "cycle" in frame.columns else []))
        frames[name] = pl.concat([frame, again.select(frame.columns).cast(dict(frame.schema))])
    two = replace(one, **frames)
    (row,) = leaks_table(two).frame.to_dicts()
    assert (row["bytes_per_step"], row["size_bytes"], row["blocks"], row["steps"]) == (64, 640, 10, 10)
    assert row["addresses"] == [*range(1000, 1005), *range(1500, 1505)]


def test_a_ring_that_releases_before_it_allocates_is_no_growth() -> None:
    assert growing(live(run(*kept_in_each(1000, 64)), *replaced(9000, 64, at_us=5))) == []


def test_one_release_as_of_a_variable_of_the_loop_excuses_no_growth() -> None:
    trace = live(run(*kept_in_each(1000, 64)), *replaced(9000, 64, steps=1))
    assert growing(trace) == [("aten::clone", 64, STEPS, "measured")]


def test_a_ring_of_tensors_of_several_sizes_may_be_growth() -> None:
    trace = run(*kept_in_each(1000, 64))
    other = live(trace, *[(9000 + at, 60 + at, True, False, STEP_US * at + 25) for at in range(STEPS)])
    assert growing(other) == [("aten::clone", 64, STEPS, "possible")]
    fewer = live(trace, *[(9000 + at, 6 + at, True, False, STEP_US * at + 25) for at in range(STEPS)])
    assert growing(fewer) == [("aten::clone", 64, STEPS, "measured")]


def test_blocks_that_no_object_uses_at_the_end_may_be_growth() -> None:
    trace = live(run(*kept_in_each(1000, 64)))
    gone = trace.storages.filter(pl.col("address") > 1002)
    assert growing(replace(trace, storages=gone)) == [("aten::clone", 64, STEPS, "possible")]


def test_blocks_that_the_recording_itself_held_do_not_grow_nor_do_those_that_nobody_is_seen_to_hold_then() -> None:
    trace = live(run(*kept_in_each(1000, 64)), (9000, 100, False, False, None))
    gone = trace.storages.filter(pl.col("address") > 1002)
    assert growing(replace(trace, storages=gone)) == []
    assert starting_note(trace, "cpu") == ""
    (peak,) = memory_peaks(memory_series(trace))
    assert peak.label == "peak 320 B, in part kept by torch's recording"  # five blocks of 64 B
    assert growing(trace) == [("aten::clone", 64, STEPS, "measured")]  # objects of the program hold all of them


def test_an_accelerator_reports_releases_of_older_blocks_itself() -> None:
    starts = [STEP_US * number for number in range(STEPS)]
    ring = [
        *(span("aten::clone", start + 15, 8) for start in starts),
        *(change(start + 20, 1000 + at, 512, device=1) for at, start in enumerate(starts)),
    ]
    assert growing(run(*ring)) == [("aten::clone", 512, STEPS, "measured")]
    older = [change(start + 25, 9000 + at, -512, device=1) for at, start in enumerate(starts)]
    assert growing(run(*ring, *older)) == []


def test_possible_growth_is_said_with_doubt_and_why() -> None:
    (found,) = find_advice(run(*kept_in_each(1000, 6_400))).advice
    assert (found.rule, found.certainty, found.saving_bytes) == ("memory_leak", "estimated", 6_400)
    assert "may leave" in found.title
    assert "Memory may grow by 6.25 KiB with every step" in found.evidence
    assert "buffer of fixed size" in found.evidence


def test_the_doubt_says_which_of_the_reasons_it_is() -> None:
    trace = run(*kept_in_each(1000, 6_400))
    sizes = live(trace, *[(9000 + at, 7_000 + at, True, False, STEP_US * at + 25) for at in range(STEPS)])
    assert "of other sizes was released" in find_advice(sizes).advice[0].evidence
    found = live(trace)
    gone = replace(found, storages=found.storages.filter(pl.col("address") > 1002))
    assert "other threads may release" in find_advice(gone).advice[0].evidence


def test_certain_growth_is_measured_and_names_both_ways_out() -> None:
    (found,) = find_advice(live(run(*kept_in_each(1000, 6_400)))).advice
    assert (found.certainty, found.title) == ("measured", "Release memory that grows every step")
    assert "if a tensor with its graph is kept" in found.fix
    assert "bound or empty it" in found.fix
    assert "`--lines`" in found.evidence  # no line was recorded


def test_growth_has_a_row_among_the_savings_with_its_bytes_a_step() -> None:
    trace = live(run(*kept_in_each(1000, 64)))
    rows = savings_table(trace).frame.filter(action="release_growth")
    # At the peak, all five are in use; four of them would be released with their steps.
    assert rows.select("device", "peak_bytes", "saved_bytes", "bytes_per_step").rows() == [("cpu", 320, 256, 64)]
    assert "grows by that with every step" in rows["arithmetic"][0]
    doubtful = savings_table(run(*kept_in_each(1000, 64))).frame
    assert "release_growth" not in doubtful["action"].to_list()


def test_the_peak_of_the_host_says_what_it_leaves_out() -> None:
    trace = live(run(*kept_in_each(1000, 64)), (9000, 3000, True, True, None), (9100, 500, True, True, None))
    tag = (-1000, "parameter", "cpu", 9100, 500, "w", "[125]", "float32", 0)
    trace = replace(trace, tags=pl.DataFrame([tag], schema=TAGS_SCHEMA, orient="row"))
    assert starting_note(trace, "cpu") == ""
    assert memory_frame(trace)["total_bytes"][0] == 3500 + 64
    unknown = replace(trace, storages=trace.storages.clear(), meta=replace(trace.meta, knows_storages=False))
    assert starting_note(unknown, "cpu") == "without older tensors but those of models and optimizers"
    assert starting_note(unknown, "cuda:0") == ""
    assert memory_frame(unknown)["total_bytes"][0] == 500 + 64


@pytest.mark.parametrize(("knows", "note"), [(True, ""), (False, "not counting what was in use before")])
def test_a_recording_in_which_nothing_was_there_before_leaves_nothing_out(knows: bool, note: str) -> None:
    trace = run(*kept_in_each(1000, 64))
    assert starting_note(live(trace) if knows else trace, "cpu") == note


@pytest.mark.parametrize("total", [None, 4096])
def test_a_curve_of_a_device_whose_allocator_told_no_totals_says_in_its_title_what_it_leaves_out(
    total: int | None,
) -> None:
    trace = make_trace(allocation(5, 4096, total, device=1))
    left_out = "" if total else "not counting what was in use before"
    assert starting_note(trace, "cuda:0") == left_out
    assert memory_series(trace).bands[0].title == ("Allocated" if total else "Allocated in the recording")


def test_places_in_cells_are_shown_with_the_label_of_the_cell() -> None:
    cell = CellSource(label="In [4]", filename="<ipython-input-4-0123456789ab>")
    trace = run(*kept_in_each(1000, 64))
    trace = replace(trace, meta=replace(trace.meta, cell=cell))
    sites = pl.DataFrame([{"kind": "line", "parent": -1, "file": cell.filename, "line": 3}], schema=trace.sites.schema)
    scopes = pl.DataFrame([(0, 0, 0, STEPS * STEP_US * 1000, 0)], schema=trace.scopes.schema, orient="row")
    shown = leaks_view(replace(trace, sites=sites, scopes=scopes)).frame
    assert shown.select("file", "line").rows() == [("In [4]", 3)]
