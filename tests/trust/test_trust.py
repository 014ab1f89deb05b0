from __future__ import annotations

from pathlib import Path

import pytest
from amount import sampled
from trust.judging import Row, judged, judged_original
from trust.mutations import mutations, read, written

import torchprof_magic as tp

TRACES = sorted((Path(__file__).parents[1] / "data" / "gpu").glob("*.json.gz"))
# What the file itself does not tell: all fills of a place are gone, or fewer than three launches tell the time.
UNKNOWABLE = {
    ("cold_first_call.json.gz", "one stream"),
    ("compiled_warm.json.gz", "every 10th"),
    ("compiled_warm.json.gz", "half at zero"),
    ("graph_capture.json.gz", "clock +1 ms"),
    ("graph_capture.json.gz", "clock +30 ms"),
    ("queued_before_and_after.json.gz", "clock +1 ms"),
}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_that_nothing_was_done_to_raises_no_alarm(path: Path) -> None:
    assert judged_original(path, tp.load(path)).passes


@pytest.mark.parametrize("path", sampled(TRACES), ids=lambda path: path.name.partition(".")[0])
def test_what_was_done_to_a_recording_is_counted_said_and_doubted(path: Path, tmp_path: Path) -> None:
    original = tp.load(path)
    rows = [judged(path, original, each, tp.load(written(each, tmp_path))) for each in mutations(read(path))]
    # Nothing is done to a recording without work of a device.
    assert len(rows) > 10 if original.trace.has_device else rows == []
    assert [str(row) for row in rows if not row.passes and key(row) not in UNKNOWABLE] == []


def key(row: Row) -> tuple[str, str]:
    return row.file, row.mutation
