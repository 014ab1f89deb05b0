"""Averages as the text table that torch's ``key_averages().table()`` prints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torchprof_magic.tables.ops.groups import FRAME_BREAK

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
    "flops": "flops",
    "key": "key",
}
_WIDTH = 12
_GAP = 2
_UNITS_NS = {"s": 1e9, "ms": 1e6, "us": 1e3}
_FLOP_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_ON_DEVICE = ("kernel", "memcpy", "memset")
_NO_SHAPES = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The arguments of torch's ``table()``, with its defaults, and the device that titles name."""

    sort_by: str | None = None
    row_limit: int = 100
    max_src_column_width: int | None = 75
    max_name_column_width: int | None = 55
    max_shapes_column_width: int | None = 80
    header: str | None = None
    top_level_events_only: bool = False
    time_unit: str | None = None
    device: str = "CUDA"


class _Column(NamedTuple):
    title: str
    width: int
    align: str
    text: Callable[[dict[str, Any]], object]


def sort_column(sort_by: str) -> str:
    """Return the column for one of torch's sort keys; raises ``ValueError`` for an unknown one."""
    key = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    if key not in SORT_KEYS:
        raise ValueError(f"unknown sort_by {sort_by!r}; choose from {', '.join(SORT_KEYS)}")
    return SORT_KEYS[key]


def torch_table(averages: pl.DataFrame, options: TableOptions) -> str:
    """Return the table of averages, in their order unless ``sort_by`` is given. Empty without rows.

    FLOPs stand before the source, which may take several lines; torch has their two titles the other way round.
    """
    rows = [_with_means(row) for row in averages.to_dicts()]
    if options.sort_by is not None:
        name = sort_column(options.sort_by)
        rows.sort(key=lambda row: row.get(name) or 0, reverse=True)
    if not rows:
        return ""
    columns = _columns(rows, options)
    layout = "".join(f"{{:{column.align}{column.width}}}{' ' * _GAP}" for column in columns)
    rule = "".join("-" * column.width + " " * _GAP for column in columns)
    lines = [*_heading(columns, options), rule, layout.format(*(column.title for column in columns)), rule]
    for row in _shown(rows, options):
        lines += _lines(row, columns, layout)
    lines += [rule, f"Self CPU time total: {_time(_sum(rows, 'self_cpu_ns'), options.time_unit)}"]
    if _has_any(rows, "self_device_ns"):
        lines.append(f"Self {options.device} time total: {_time(_device_total(rows), options.time_unit)}")
    return "\n".join(lines) + "\n"


def _heading(columns: list[_Column], options: TableOptions) -> list[str]:
    rule = "=" * (sum(column.width + _GAP for column in columns) - _GAP)
    lines = [] if options.header is None else [rule, options.header]
    return (
        [*lines, rule, "This report only display top-level ops statistics"] if options.top_level_events_only else lines
    )


def _shown(rows: list[dict[str, Any]], options: TableOptions) -> list[dict[str, Any]]:
    found = [row for row in rows if row["is_top"] or not options.top_level_events_only]
    return found if options.row_limit < 0 else found[: options.row_limit]


def _lines(row: dict[str, Any], columns: list[_Column], layout: str) -> list[str]:
    """Return the line of a row; where there are sources, those of its other frames and an empty line follow."""
    lines = [layout.format(*(column.text(row) for column in columns))]
    last = columns[-1]
    if last.title == _SOURCE:
        nothing = [""] * (len(columns) - 1)
        lines += [layout.format(*nothing, _end_of(frame, last.width)) for frame in _frames(row)[1:]]
        lines.append(layout.format(*nothing, ""))
    return lines


def _with_means(row: dict[str, Any]) -> dict[str, Any]:
    means = {f"mean_{kind}_ns": row.get(f"total_{kind}_ns", 0) / row["count"] for kind in ("cpu", "device")}
    return row | means


def _columns(rows: list[dict[str, Any]], options: TableOptions) -> list[_Column]:
    """Return the columns in torch's order."""
    most = options.max_name_column_width
    width = _width(rows, "key", most)
    return [
        _Column("Name", width, ">", lambda row: _cut(row["key"], most)),
        *_overloads(rows, width, most),
        *_times(rows, "cpu", "CPU", options),
        *(_times(rows, "device", options.device, options) if _has_any(rows, "self_device_ns") else ()),
        *(_sizes("cpu", "CPU") if "self_cpu_bytes" in rows[0] else ()),
        *(_sizes("device", options.device) if _has_any(rows, "self_device_bytes") else ()),
        _Column("# of Calls", _WIDTH, ">", lambda row: row["count"]),
        *_shapes(rows, options.max_shapes_column_width),
        *_flops(rows),
        *_sources(rows, options.max_src_column_width),
    ]


def _overloads(rows: list[dict[str, Any]], width: int, most: int | None) -> list[_Column]:
    """Return the column of overloads, which is as wide as that of names; none where none are known."""
    if not any(row.get("overload") for row in rows):
        return []
    return [_Column("Overload Name", width, ">", lambda row: _cut(row["overload"], most))]


def _times(rows: list[dict[str, Any]], kind: str, title: str, options: TableOptions) -> list[_Column]:
    whole = _sum(rows, "self_cpu_ns") if kind == "cpu" else _device_total(rows)
    unit = options.time_unit
    self_ns, total_ns, mean_ns = f"self_{kind}_ns", f"total_{kind}_ns", f"mean_{kind}_ns"
    own = _Column(f"Self {title}", _WIDTH, ">", lambda row: _time(row[self_ns], unit))
    share = _Column(f"Self {title} %", _WIDTH, ">", lambda row: _share(row[self_ns], whole))
    total = _Column(f"{title} total", _WIDTH, ">", lambda row: _time(row[total_ns], unit))
    mean = _Column(f"{title} time avg", _WIDTH, ">", lambda row: _time(row[mean_ns], unit))
    if kind == "device":
        return [own, share, total, mean]
    return [share, own, _Column("CPU total %", _WIDTH, ">", lambda row: _share(row[total_ns], whole)), total, mean]


def _sizes(kind: str, title: str) -> list[_Column]:
    return [
        _Column(f"{title} Mem", _WIDTH, ">", lambda row: _size(row[f"total_{kind}_bytes"])),
        _Column(f"Self {title} Mem", _WIDTH, ">", lambda row: _size(row[f"self_{kind}_bytes"])),
    ]


def _shapes(rows: list[dict[str, Any]], most: int | None) -> list[_Column]:
    if not any(row.get("shapes", _NO_SHAPES) != _NO_SHAPES for row in rows):
        return []
    width = _width(rows, "shapes", most)
    return [_Column("Input Shapes", width, ">", lambda row: row["shapes"][:width])]


def _flops(rows: list[dict[str, Any]]) -> list[_Column]:
    """Return the column of FLOPs in the unit that fits the fewest; none where none are known."""
    known = [row["flops"] for row in rows if row.get("flops")]
    if not known:
        return []
    unit = min(int(math.log10(min(known)) / 3), len(_FLOP_UNITS) - 1)
    scale = pow(10, -3.0 * unit)

    def text(row: dict[str, Any]) -> str:
        return f"{row['flops'] * scale:8.3f}" if row["flops"] else "--"

    return [_Column(f"Total {_FLOP_UNITS[unit]}", _WIDTH, ">", text)]


_SOURCE = "Source Location"


def _sources(rows: list[dict[str, Any]], most: int | None) -> list[_Column]:
    if not any(row.get("stack") for row in rows):
        return []
    longest = max(len(frame) for row in rows for frame in _frames(row)) + 4
    width = longest if most is None else min(longest, most)
    return [_Column(_SOURCE, width, "<", lambda row: _end_of(_frames(row)[0], width))]


def _frames(row: dict[str, Any]) -> list[str]:
    found: list[str] = row["stack"].split(FRAME_BREAK)
    return found


def _end_of(frame: str, most: int) -> str:
    """Return the end of a frame that is too long, as torch cuts it."""
    return frame if len(frame) <= most else "..." + frame[len(frame) - most + 3 :]


def _width(rows: list[dict[str, Any]], name: str, most: int | None) -> int:
    longest = max(len(row[name]) for row in rows) + 4
    return longest if most is None else min(longest, most)


def _cut(name: str, most: int | None) -> str:
    return name if most is None or len(name) < most - 3 else name[: most - 3] + "..."


def _sum(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _has_any(rows: list[dict[str, Any]], name: str) -> bool:
    return any(row.get(name, 0) > 0 for row in rows)


def _device_total(rows: list[dict[str, Any]]) -> int:
    """Return the time of all device work; ranges on a device hold it a second time."""
    return sum(row["self_device_ns"] for row in rows if row["kind"] in _ON_DEVICE)


def _share(ns: int, whole_ns: int) -> str:
    return f"{ns * 100 / whole_ns:.2f}%" if whole_ns else "NaN"


def _time(ns: float, unit: str | None) -> str:
    if unit is None:
        unit = "s" if ns >= _UNITS_NS["s"] else "ms" if ns >= _UNITS_NS["ms"] else "us"
    return f"{ns / _UNITS_NS[unit]:.3f}{unit}"


def _size(size: int) -> str:
    for name, each in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(size) >= each:
            return f"{size / each:.2f} {name}"
    return f"{size} B"
