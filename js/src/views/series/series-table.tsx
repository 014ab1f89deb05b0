/** A chart as a table for screen readers. */

import { formatNs, formatValue } from "../../base/format";
import { type LaneSeries, placeOfTime } from "../../layout/series-lane";
import type { MarkHeader } from "../../wire/header";
import { MOST_SPOKEN, SpokenTable } from "../common/spoken-table";

interface SeriesTableProps {
  readonly id: string;
  readonly series: LaneSeries;
  readonly marks: readonly MarkHeader[];
}

export function SeriesTable({ id, series, marks }: SeriesTableProps) {
  const places = placesOf(series, marks);
  const isPart = places.length < series.time_ns.length;
  return (
    <SpokenTable
      id={id}
      caption={`Values over time${isPart ? ", a choice of changes with every mark" : ""}`}
      head={["Time", ...bandsOf(series).map(({ title }) => title), "Mark"]}
      make={() => ({
        count: places.length,
        rows: places.map((at) => rowOf(series, marks, at)),
      })}
      when={[series]}
    />
  );
}

function bandsOf({ bands, stacked }: LaneSeries) {
  return [...bands, ...stacked];
}

function rowOf(series: LaneSeries, marks: readonly MarkHeader[], at: number): readonly string[] {
  const time = series.time_ns[at] ?? 0;
  const values = bandsOf(series).map(({ values, unit }) => {
    const value = values[at];
    return typeof value === "number" ? formatValue(value, unit) : "";
  });
  const here = marks.filter((mark) => placeOfTime(series.time_ns, mark.time_ns) === at);
  return [formatNs(time), ...values, here.map(({ label }) => label).join(", ")];
}

/** Evenly chosen changes, and those at the marks. */
function placesOf({ time_ns }: LaneSeries, marks: readonly MarkHeader[]): readonly number[] {
  const every = Math.max(1, Math.ceil(time_ns.length / MOST_SPOKEN));
  const even = time_ns.flatMap((_, at) => (at % every === 0 ? [at] : []));
  const marked = marks.map((mark) => placeOfTime(time_ns, mark.time_ns));
  return Array.from(new Set([...even, ...marked])).toSorted((a, b) => a - b);
}
