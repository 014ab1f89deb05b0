"""Averages as the text table that torch's ``key_averages().table()`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchprof_magic.analysis.groups import FRAME_BREAK

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

# torch's names of what a table can be sorted by, and the columns that hold it; cuda and xpu stand for device.
SORT_KEYS = {
    "cpu_time": "mean_cpu_ns",
    "device_time": "mean_device_ns",
    "cpu_time_total": "total_cpu_ns",
    "device_time_total": "total_device_ns",
    "self_cpu_time_total": "self_cpu_ns",
    "self_device_time_total": "self_device_ns",
    "cpu_memory_usage": "total_cpu_bytes",
    "device_memory_usage": "total_device_bytes",
    "self_cpu_memory_usage": "self_cpu_bytes",
    "self_device_memory_usage": "self_device_bytes",
    "count": "count",
    "key": "key",
}
_WIDTH = 12
_NAME_WIDTH = 55
_SHAPES_WIDTH = 80
_STACK_WIDTH = 75
_UNITS_NS = {"s": 1e9, "ms": 1e6, "us": 1e3}
_ON_DEVICE = ("kernel", "memcpy", "memset")


def sort_column(sort_by: str) -> str:
    """Return the column for one of torch's sort keys; raises ``ValueError`` for an unknown one."""
    key = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    if key not in SORT_KEYS:
        raise ValueError(f"unknown sort_by {sort_by!r}; choose from {', '.join(SORT_KEYS)}")
    return SORT_KEYS[key]


def torch_table(
    averages: pl.DataFrame, *, sort_by: str | None, row_limit: int, time_unit: str | None, device: str
) -> str:
    """Return the table of averages, of at most ``row_limit`` rows, or of all with -1. Empty without rows."""
    rows = [_with_means(row) for row in averages.to_dicts()]
    if sort_by is not None:
        name = sort_column(sort_by)
        rows.sort(key=lambda row: row.get(name, 0), reverse=True)
    if not rows:
        return ""
    columns = _columns(rows, averages.columns, time_unit, device)
    shown = rows if row_limit < 0 else rows[:row_limit]
    layout = "".join(f"{{:{align}{width}}}  " for _, width, align, _ in columns)
    rule = "".join("-" * width + "  " for _, width, _, _ in columns)
    lines = [rule, layout.format(*(title for title, _, _, _ in columns)), rule]
    for row in shown:
        lines.append(layout.format(*(text(row) for _, _, _, text in columns)))
        if any(each["stack"] for each in rows if "stack" in each):
            nothing = [""] * (len(columns) - 1)
            lines += [layout.format(*nothing, _end_of(frame, columns[-1][1])) for frame in _frames(row)[1:]]
            lines.append(layout.format(*nothing, ""))
    lines += [rule, f"Self CPU time total: {_time(_sum(rows, 'self_cpu_ns'), time_unit)}"]
    if "self_device_ns" in averages.columns:
        lines.append(f"Self {device} time total: {_time(_device_total(rows), time_unit)}")
    return "\n".join(lines) + "\n"


def _overloads(rows: list[dict[str, Any]]) -> list[tuple[str, int, str, Callable[[dict[str, Any]], object]]]:
    """Return the column of overloads, if there are any."""
    if not any(row.get("overload") for row in rows):
        return []
    return [("Overload Name", _width(rows, "overload", _NAME_WIDTH), ">", lambda row: _cut(row["overload"]))]


def _with_means(row: dict[str, Any]) -> dict[str, Any]:
    means = {f"mean_{kind}_ns": row.get(f"total_{kind}_ns", 0) / row["count"] for kind in ("cpu", "device")}
    return row | means


def _columns(
    rows: list[dict[str, Any]], names: list[str], time_unit: str | None, device: str
) -> list[tuple[str, int, str, Callable[[dict[str, Any]], object]]]:
    """Return title, width, alignment and text of every column, in torch's order."""

    def time_of(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: _time(row[name], time_unit)

    def share_of(name: str, whole: int) -> Callable[[dict[str, Any]], str]:
        return lambda row: f"{row[name] * 100 / whole:.2f}%" if whole else "NaN"

    def size_of(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: _size(row[name])

    cpu_ns = _sum(rows, "self_cpu_ns")
    found: list[tuple[str, int, str, Callable[[dict[str, Any]], object]]] = [
        ("Name", _width(rows, "key", _NAME_WIDTH), ">", lambda row: _cut(row["key"])),
        *_overloads(rows),
        ("Self CPU %", _WIDTH, ">", share_of("self_cpu_ns", cpu_ns)),
        ("Self CPU", _WIDTH, ">", time_of("self_cpu_ns")),
        ("CPU total %", _WIDTH, ">", share_of("total_cpu_ns", cpu_ns)),
        ("CPU total", _WIDTH, ">", time_of("total_cpu_ns")),
        ("CPU time avg", _WIDTH, ">", time_of("mean_cpu_ns")),
    ]
    if "self_device_ns" in names:
        found += [
            (f"Self {device}", _WIDTH, ">", time_of("self_device_ns")),
            (f"Self {device} %", _WIDTH, ">", share_of("self_device_ns", _device_total(rows))),
            (f"{device} total", _WIDTH, ">", time_of("total_device_ns")),
            (f"{device} time avg", _WIDTH, ">", time_of("mean_device_ns")),
        ]
    for kind, title in (("cpu", "CPU"), ("device", device)):
        if f"self_{kind}_bytes" in names:
            found += [
                (f"{title} Mem", _WIDTH, ">", size_of(f"total_{kind}_bytes")),
                (f"Self {title} Mem", _WIDTH, ">", size_of(f"self_{kind}_bytes")),
            ]
    found.append(("# of Calls", _WIDTH, ">", lambda row: row["count"]))
    if "shapes" in names:
        width = _width(rows, "shapes", _SHAPES_WIDTH)
        found.append(("Input Shapes", width, ">", lambda row: row["shapes"][:width]))
    if "stack" in names and any(row["stack"] for row in rows):
        longest = max(len(frame) for row in rows for frame in _frames(row)) + 4
        most = min(longest, _STACK_WIDTH)
        found.append(("Source Location", most, "<", lambda row: _end_of(_frames(row)[0], most)))
    return found


def _frames(row: dict[str, Any]) -> list[str]:
    found: list[str] = row["stack"].split(FRAME_BREAK)
    return found


def _end_of(frame: str, most: int) -> str:
    """Return the end of a frame that is too long, as torch cuts it."""
    return frame if len(frame) <= most else "..." + frame[len(frame) - most + 3 :]


def _width(rows: list[dict[str, Any]], name: str, most: int) -> int:
    return min(max(len(row[name]) for row in rows) + 4, most)


def _cut(name: str) -> str:
    return name[: _NAME_WIDTH - 3] + "..." if len(name) >= _NAME_WIDTH - 3 else name


def _sum(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _device_total(rows: list[dict[str, Any]]) -> int:
    """Return the time of all device work; ranges on a device hold it a second time."""
    return sum(row["self_device_ns"] for row in rows if row["kind"] in _ON_DEVICE)


def _time(ns: float, unit: str | None) -> str:
    if unit is None:
        unit = "s" if ns >= _UNITS_NS["s"] else "ms" if ns >= _UNITS_NS["ms"] else "us"
    return f"{ns / _UNITS_NS[unit]:.3f}{unit}"


def _size(size: int) -> str:
    for name, each in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(size) >= each:
            return f"{size / each:.2f} {name}"
    return f"{size} B"
