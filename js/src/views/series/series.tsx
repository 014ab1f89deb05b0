/** A series as a chart: its bands over time, one lane at a time. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { formatNs, formatValue, plural } from "../../base/format";
import { bandColor } from "../../base/palette";
import { ns } from "../../base/units";
import { readColors } from "../../draw/colors";
import { mountSeriesChart } from "../../draw/series-chart";
import { type LaneSeries, laneSeries, lanesOf } from "../../layout/series-lane";
import type { FooterItem } from "../../state/store";
import type { MarkHeader } from "../../wire/header";
import type { SeriesProps } from "../common/context";
import { Legend, Segmented, Tools } from "../common/parts";

export function SeriesView({ report, view, frame }: SeriesProps) {
  const lanes = useMemo(() => lanesOf(frame), [frame]);
  const choice = report.store.choice(view);
  const lane = lanes.find((name) => name === choice.value) ?? lanes[0] ?? "";
  const series = useMemo(() => laneSeries(view, frame, lane), [view, frame, lane]);
  const marks = view.marks.filter((mark) => mark.lane === lane || mark.lane === "");
  const { theme } = report.look.value;
  const plot = useRef<HTMLDivElement>(null);
  useChart(plot, report, lane, series, marks);
  const legend = series.bands.map(({ name, title }, index) => ({
    title,
    color: bandColor(name, index, theme),
    isLine: index > 0,
  }));
  return (
    <div class="tp-view" data-tp-lane={lane} data-tp-points={series.time_ns.length}>
      <Tools>
        <Segmented
          label="Lane"
          options={lanes.map((name) => ({ name, title: name }))}
          chosen={lane}
          onChoose={(name) => {
            choice.value = name;
          }}
        />
        <span class="tp-tools-note">{laneNote(lane, marks, series)}</span>
      </Tools>
      <div
        class="tp-plot"
        ref={plot}
        role="img"
        aria-label={`${view.title} of ${lane} over time. ${laneNote(lane, marks, series)}`}
      />
      <Legend entries={legend} />
    </div>
  );
}

function laneNote(lane: string, marks: readonly MarkHeader[], series: LaneSeries): string {
  const peak = marks.find((mark) => mark.kind === "peak");
  const points = plural(series.time_ns.length, "change");
  return peak === undefined
    ? `${lane} · ${points}`
    : `${lane} · ${peak.label} at ${formatNs(peak.time_ns)} · ${points}`;
}

/** Keeps a chart in the box: recreated for new data or a new theme, resized with the box. */
function useChart(
  plot: { readonly current: HTMLDivElement | null },
  { store, look }: SeriesProps["report"],
  lane: string,
  series: LaneSeries,
  marks: readonly MarkHeader[],
): void {
  const now = look.value;
  const range = store.range.value;
  useEffect(() => {
    const box = plot.current;
    if (box === null) return;
    const colors = readColors(box, now.theme);
    const bands = series.bands.map(({ name, title, unit, values }, index) => ({
      title,
      unit,
      values,
      color: bandColor(name, index, now.theme),
      // The first band is what is used; the others are limits above it.
      isArea: index === 0,
    }));
    const onHover = (index: number | null) => {
      store.hover.value = index === null ? null : describePoint(lane, series, index);
    };
    const onRange = (start: number, end: number) => {
      store.range.value = { start: ns(start), end: ns(end) };
    };
    const scene = { time_ns: series.time_ns, bands, marks, colors, onHover, onRange };
    const chart = mountSeriesChart(box, scene, box.clientWidth, box.clientHeight);
    if (range !== null) chart.show(range.start, range.end);
    const observer = new ResizeObserver(() => chart.resize(box.clientWidth, box.clientHeight));
    observer.observe(box);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [now, lane, series, range]);
}

function describePoint(lane: string, series: LaneSeries, index: number): FooterItem {
  const values = series.bands.flatMap(({ title, unit, values }) => {
    const value = values[index];
    return typeof value === "number" ? [`${title} ${formatValue(value, unit)}`] : [];
  });
  const at = formatNs(series.time_ns[index] ?? 0);
  return { name: lane, isCode: false, phase: "", facts: [`at ${at}`, ...values] };
}
