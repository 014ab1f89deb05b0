"""What counters are called, and that a file that is written and read again gives the same names and units."""

from __future__ import annotations

import pytest

from torchprof_magic.model.counter_names import counter_name, event_name


@pytest.mark.parametrize(
    ("event", "series", "name", "unit"),
    [
        ("Power (W)", "", "Power", "W"),
        ("Temperature (C)", "", "Temperature", "C"),
        ("SM Clock (MHz)", "value", "SM Clock", "MHz"),
        ("SM Active (%)", "", "SM Active", "%"),
        ("DRAM [GB/s]", "", "DRAM", "GB/s"),
        ("throughput (tokens/s)", "", "throughput", "tokens/s"),
        # Brackets that hold no unit are a part of the name.
        ("Cycles (Current Kernel)", "", "Cycles (Current Kernel)", None),
        ("Queue (M)", "", "Queue (M)", None),
        ("(W)", "", "(W)", None),
        # The name of the only series is its unit, or says no more than that of the event.
        ("AI Core Freq", "MHz", "AI Core Freq", "MHz"),
        ("loop_lag", "ms", "loop_lag", "ms"),
        ("load", "load", "load", None),
        ("HBM 0/Read", "Read(MB/s)", "HBM 0/Read: Read", "MB/s"),
        ("Queue Length", "stream 7", "Queue Length: stream 7", None),
        # Names that end in a unit of their own.
        ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "", None, "%"),
        ("dram__bytes_read.sum.per_second", "", None, None),
        ("dram__bytes.sum.per_second", "", None, "bytes/s"),
        ("heap_bytes", "", None, "bytes"),
        ("lag_ms", "", None, "ms"),
        ("gpu.util.percent", "", None, "%"),
        ("", "", "counter", None),
        ("", "load", "load", None),
    ],
)
def test_the_only_series_of_an_event(event: str, series: str, name: str | None, unit: str | None) -> None:
    assert counter_name(event, series) == (event if name is None else name, unit)


def test_one_of_several_series_keeps_its_name_whatever_that_is() -> None:
    assert counter_name("Power (W)", "gpu", is_only=False) == ("Power: gpu", "W")
    assert counter_name("clocks", "MHz", is_only=False) == ("clocks: MHz", "MHz")
    assert counter_name("io", "value", is_only=False) == ("io: value", None)
    assert counter_name("io (W)", "read (MB/s)", is_only=False) == ("io: read", "MB/s")


def test_an_id_is_added_to_the_name_of_the_event() -> None:
    assert counter_name("Queue (ms)", "stream", "7") == ("Queue[7]: stream", "ms")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Power", "W"),
        ("AI Core Freq", "MHz"),
        ("Cycles (Current Kernel)", None),
        ("heap_bytes", "bytes"),
        ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "%"),
        ("Power (W)", "W"),
        ("mem[3]: a", None),
        ("io: read", "MB/s"),
        ("value", None),
        ("a b_ms", "%"),
    ],
)
def test_a_name_that_is_written_and_read_again_is_the_same(name: str, unit: str | None) -> None:
    assert counter_name(event_name(name, unit)) == (name, unit)
