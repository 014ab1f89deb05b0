/** A series as a chart: its bands over time, one lane at a time. */

import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatNs, formatValue, plural } from "../../base/format";
import { bandColor } from "../../base/palette";
import { ns } from "../../base/units";
import { observeScreenPx } from "../../draw/canvas-view";
import { readColors } from "../../draw/colors";
import { screenScale } from "../../draw/screen-scale";
import { mountSeriesChart, type SeriesChart } from "../../draw/series-chart";
import { type LaneSeries, laneSeries, lanesOf } from "../../layout/series-lane";
import type { FooterItem } from "../../state/store";
import type { MarkHeader } from "../../wire/header";
import type { SeriesProps } from "../common/context";
import { focusable } from "../common/focusable";
import { Legend, Segmented, Tools } from "../common/parts";
import { tableId } from "../common/spoken-table";
import { actOnSeriesKey, type SeriesCursor } from "./series-keys";
import { SeriesTable } from "./series-table";

export function SeriesView({ report, view, frame }: SeriesProps) {
  const lanes = useMemo(() => lanesOf(frame), [frame]);
  const choice = report.store.choice(view);
  const lane = lanes.find((name) => name === choice.value) ?? lanes[0] ?? "";
  const series = useMemo(() => laneSeries(view, frame, lane), [view, frame, lane]);
  const marks = view.marks.filter((mark) => mark.lane === lane || mark.lane === "");
  const { theme } = report.look.value;
  const plot = useRef<HTMLDivElement>(null);
  const chart = useChart(plot, report, lane, series, marks);
  const cursor = useCursor(report, series, chart);
  const legend = series.bands.map(({ name, title }, index) => ({
    title,
    color: bandColor(name, index, theme),
    isLine: index > 0,
  }));
  const table = tableId(report.id, view.name);
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
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a chart with its own keys has the role application.
        tabIndex={0}
        role="application"
        aria-roledescription="chart"
        aria-details={table}
        aria-label={`${view.title} of ${lane} over time. ${laneNote(lane, marks, series)}. Left and right arrow keys move from change to change, with Shift they choose a range.`}
        data-tp-point={cursor.index.value}
        {...focusable((event) => actOnSeriesKey(event, cursor))}
      />
      <Legend entries={legend} />
      <SeriesTable id={table} series={series} marks={marks} />
      <div class="tp-aloud" aria-live="polite">
        {cursor.index.value < 0 ? "" : aloud(describePoint(lane, series, cursor.index.value))}
      </div>
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

function aloud({ facts }: FooterItem): string {
  return facts.join(", ");
}

/** Keeps a chart in the box: recreated for new data, a new theme or another zoom, resized with the box. */
function useChart(
  plot: { readonly current: HTMLDivElement | null },
  { store, look }: SeriesProps["report"],
  lane: string,
  series: LaneSeries,
  marks: readonly MarkHeader[],
): { readonly current: SeriesChart | null } {
  const now = look.value;
  const range = store.range.value;
  const scale = useSignal(1);
  const made = useRef<SeriesChart | null>(null);
  // Not an effect after the frame: before the page is printed there is none.
  useLayoutEffect(() => {
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
    const times = { time_ns: series.time_ns, onHover, onRange, scale: scale.value };
    const scene = { ...times, bands, marks, colors };
    const chart = mountSeriesChart(box, scene, box.clientWidth, box.clientHeight);
    made.current = chart;
    const chosen = store.range.peek();
    if (chosen !== null) chart.show(chosen);
    const observer = new ResizeObserver(() => {
      chart.resize(box.clientWidth, box.clientHeight);
      scale.value = screenScale(box);
    });
    observeScreenPx(observer, box);
    return () => {
      observer.disconnect();
      chart.destroy();
      made.current = null;
    };
  }, [now, lane, series, scale.value]);
  useLayoutEffect(() => made.current?.show(range), [range]);
  return made;
}

/** The change that the keys point at; -1 before the first key. */
function useCursor(
  { store }: SeriesProps["report"],
  series: LaneSeries,
  chart: { readonly current: SeriesChart | null },
): SeriesCursor {
  const index: Signal<number> = useSignal(-1);
  const anchor = useRef<number | null>(null);
  const last = series.time_ns.length - 1;
  return {
    index,
    last,
    go: (to, isRange) => {
      const from = index.value < 0 ? to : index.value;
      index.value = Math.min(last, Math.max(0, to));
      chart.current?.point(index.value);
      if (!isRange) {
        anchor.current = null;
        return;
      }
      anchor.current ??= from;
      const ends = [anchor.current, index.value].map((at) => series.time_ns[at] ?? 0);
      store.range.value = { start: ns(Math.min(...ends)), end: ns(Math.max(...ends)) };
    },
  };
}

function describePoint(lane: string, series: LaneSeries, index: number): FooterItem {
  const values = series.bands.flatMap(({ title, unit, values }) => {
    const value = values[index];
    return typeof value === "number" ? [`${title} ${formatValue(value, unit)}`] : [];
  });
  const at = formatNs(series.time_ns[index] ?? 0);
  return { name: lane, isCode: false, phase: "", facts: [`at ${at}`, ...values] };
}
