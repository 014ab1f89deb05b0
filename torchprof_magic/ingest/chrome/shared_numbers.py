"""Which of several calls with the same correlation number launched a device event.

A file into which the traces of several processes were joined holds the same numbers more than once.
"""

from __future__ import annotations

import polars as pl

# With more candidates than this for each event, numbers say nothing: they are 0 throughout, say.
MOST_CANDIDATES = 16
# A process launches the work of a device if it has a call for nearly as many of its events as any other process.
NEARLY = 0.9
# Processes that do the same at the same time differ by less: their order is that of the devices.
ALIKE_NS = 20_000
_KEY = ["cycle", "correlation"]
_DEVICE = ["cycle", "device"]


def nearest_calls(on_device: pl.DataFrame, calls: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs ``row``, ``row_call`` of device events and the calls that launched them.

    The call is one of the process that launches the other work of the device, and the last one before the event. Frames
    have ``row``, ``lane``, ``start_ns`` and the numbers; events have a ``device``.
    """
    first = calls.unique(_KEY, keep="first", maintain_order=True)
    sizes = calls.group_by(_KEY).len()
    candidates = on_device.join(sizes, on=_KEY)["len"].sum()
    if candidates > MOST_CANDIDATES * on_device.height:
        calls = first
    pid = lanes["pid"].gather(calls["lane"].to_list()).alias("process")
    calls = calls.select(*_KEY, "row", "start_ns").with_columns(pid)
    pairs = on_device.select("row", *_KEY, "start_ns", pl.col("device").fill_null(0)).join(
        calls, on=_KEY, suffix="_call"
    )
    pairs = pairs.with_columns((pl.col("start_ns") - pl.col("start_ns_call")).alias("delay"))
    pairs = pairs.join(_processes(pairs), on=[*_DEVICE, "process"], how="semi")
    order = [pl.col("row"), pl.col("delay") < 0, pl.col("delay").abs(), pl.col("row_call")]
    return pairs.sort(order).unique("row", keep="first", maintain_order=True).select("row", "row_call")


def _processes(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the processes that launch the work of each device: those with calls for the most events.

    Of several, each launches the work of one device before another launches that of two, and the closest calls count.
    Processes that are left over share a device.
    """
    found = pairs.group_by(*_DEVICE, "process").agg(
        pl.col("row").n_unique().alias("events"), pl.col("delay").abs().median().alias("delay")
    )
    most = pl.col("events").max().over(_DEVICE)
    order = [*map(pl.col, _DEVICE), pl.col("delay") // ALIKE_NS, pl.col("process").str.len_chars(), pl.col("process")]
    found = found.filter(pl.col("events") >= NEARLY * most).sort(order)
    of_device: dict[tuple[int, int], str] = {}
    for cycle, device in found.select(_DEVICE).unique(maintain_order=True).rows():  # few devices
        processes = found.filter(pl.col("cycle") == cycle, pl.col("device") == device)["process"].to_list()
        taken = {process for (other, _), process in of_device.items() if other == cycle}
        of_device[cycle, device] = next((each for each in processes if each not in taken), processes[0])
    has_one = {(cycle, process) for (cycle, _), process in of_device.items()}
    keys = zip(*(found[name].to_list() for name in (*_DEVICE, "process")), strict=True)
    is_its = [of_device[cycle, device] == process or (cycle, process) not in has_one for cycle, device, process in keys]
    return found.filter(pl.Series(is_its, dtype=pl.Boolean))
