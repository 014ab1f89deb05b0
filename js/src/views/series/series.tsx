/** A series as a chart: its bands over time, one lane at a time. */

import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { formatNs, formatValue, plural } from "../../base/format";
import { bandColor, phaseColor, type Theme } from "../../base/palette";
import { ns } from "../../base/units";
import { observeScreenPx } from "../../draw/canvas-view";
import { readColors } from "../../draw/colors";
import { screenScale } from "../../draw/screen-scale";
import {
  type Band,
  mountSeriesChart,
  type SeriesChart,
  type SeriesScene,
} from "../../draw/series-chart";
import { type LaneSeries, laneSeries, lanesOf, stackedTops } from "../../layout/series-lane";
import type { FooterItem } from "../../state/store";
import type { MarkHeader } from "../../wire/header";
import type { SeriesProps } from "../common/context";
import { focusable } from "../common/focusable";
import { Groupings } from "../common/groupings";
import { Legend, Segmented, Tools } from "../common/parts";
import { tableId } from "../common/spoken-table";
import { BlockList, BlockMap, Holders } from "./blocks";
import { actOnSeriesKey, type SeriesCursor } from "./series-keys";
import { SeriesTable } from "./series-table";
import { useBlocks } from "./use-blocks";

export function SeriesView({ report, view, frame }: SeriesProps) {
  const lanes = useMemo(() => lanesOf(frame), [frame]);
  const choice = report.store.choice(view);
  const lane = lanes.find((name) => name === choice.value) ?? lanes[0] ?? "";
  const series = useMemo(() => laneSeries(view, frame, lane), [view, frame, lane]);
  const marks = useMarks(view, lane);
  const state = report.store.memory(view);
  const isDivided = state.isDivided.value && series.stacked.length > 1;
  const blocks = useBlocks(report, view, lane, series, marks);
  const { theme } = report.look.value;
  const plot = useRef<HTMLDivElement>(null);
  const layers = useMemo(() => layersOf(series, isDivided, theme), [series, isDivided, theme]);
  const pick = (index: number) => {
    state.picked.value = series.time_ns[index] ?? null;
    state.listed.value = "picked";
  };
  const spans = useSpans(view, theme);
  const scene = { series, layers, marks, ...spans, trend: blocks.trend, lane, pick };
  const chart = useChart(plot, report, scene, blocks.time);
  const cursor = useCursor(report, series, chart, pick);
  const at = cursor.index.value;
  const table = tableId(report.id, view.name);
  const note = laneNote(lane, marks, series);
  return (
    <div class="tp-view" data-tp-points={series.time_ns.length}>
      <Tools>
        <Groupings report={report} view={view} />
        <LaneChoice choice={choice} lanes={lanes} lane={lane} />
        {series.stacked.length > 1 && <BandChoice isDivided={state.isDivided} />}
        {blocks.state !== "ready" && <span class="tp-tools-note">{note}</span>}
      </Tools>
      <Holders {...{ report, lane, marks, blocks }} />
      <div class="tp-series-body">
        <div class="tp-series-main">
          <div
            class="tp-plot"
            ref={plot}
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a chart with its own keys has the role application.
            tabIndex={0}
            role="application"
            aria-roledescription="chart"
            aria-details={table}
            aria-label={`${view.title} of ${lane} over time. ${note}. Left and right arrow keys move from change to change, with Shift they choose a range.`}
            data-tp-point={at}
            data-tp-divided={isDivided}
            {...focusable((event) => actOnSeriesKey(event, cursor))}
          />
          <BandLegend layers={layers} />
          <BlockMap report={report} view={view} blocks={blocks} />
        </div>
        <BlockList report={report} view={view} blocks={blocks} />
      </div>
      <SeriesTable id={table} series={series} marks={marks} />
      <div class="tp-aloud" aria-live="polite">
        {at < 0 ? "" : aloud(describePoint(lane, series, spans.modules, at))}
      </div>
    </div>
  );
}

interface LaneChoiceProps {
  readonly choice: Signal<string | null>;
  readonly lanes: readonly string[];
  readonly lane: string;
}

function LaneChoice({ choice, lanes, lane }: LaneChoiceProps) {
  return (
    <Segmented
      label="Lane"
      options={lanes.map((name) => ({ name, title: name }))}
      chosen={lane}
      onChoose={(name) => {
        choice.value = name;
      }}
    />
  );
}

function BandChoice({ isDivided }: { readonly isDivided: Signal<boolean> }) {
  return (
    <Segmented
      label="Bands"
      options={BANDS}
      chosen={isDivided.value ? "categories" : "total"}
      onChoose={(name) => {
        isDivided.value = name === "categories";
      }}
    />
  );
}

function BandLegend({ layers }: { readonly layers: readonly Band[] }) {
  const entries = layers
    .toReversed()
    .map(({ title, color, fill }) => ({ title, color, isLine: fill === "none" }));
  return <Legend entries={entries} />;
}

/** The marks of a lane, and those of all lanes. */
function useMarks({ marks }: SeriesProps["view"], lane: string): readonly MarkHeader[] {
  return useMemo(
    () => marks.filter((mark) => mark.lane === lane || mark.lane === ""),
    [marks, lane],
  );
}

/** What a view says of stretches of time: their phases and modules. */
function useSpans(view: SeriesProps["view"], theme: Theme): Pick<Drawn, "phases" | "modules"> {
  const phases = useMemo(
    () =>
      view.phases.map(({ start_ns, end_ns, phase }) => {
        return { start: start_ns, end: end_ns, color: phaseColor(phase, theme) };
      }),
    [view, theme],
  );
  const modules = useMemo(
    () =>
      view.modules.map(({ start_ns, end_ns, name }) => ({ start: start_ns, end: end_ns, name })),
    [view],
  );
  return { phases, modules };
}

// Pale enough for a name on it.
const MODULE_ALPHA = "3d";

const BANDS = [
  { name: "categories", title: "Categories" },
  { name: "total", title: "Total" },
] as const;

/** What is drawn, from behind: a stack from its top down, or the first band as an area; limits are lines. */
function layersOf(series: LaneSeries, isDivided: boolean, theme: Theme): readonly Band[] {
  const [first, ...limits] = series.bands;
  const lines = limits.map(({ name, title, unit, values }, index) => {
    return { title, unit, values, color: bandColor(name, index + 1, theme), fill: "none" as const };
  });
  if (!isDivided) {
    if (first === undefined) return lines;
    const { name, title, unit, values } = first;
    return [...lines, { title, unit, values, color: bandColor(name, 0, theme), fill: "pale" }];
  }
  const tops = stackedTops(series.stacked);
  const stack = series.stacked.map(({ name, title, unit }, index) => {
    const color = bandColor(name, index, theme);
    return { title, unit, values: tops[index] ?? [], color, fill: "full" as const };
  });
  return [...lines, ...stack.toReversed()];
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

interface Drawn {
  readonly series: LaneSeries;
  readonly layers: readonly Band[];
  readonly marks: readonly MarkHeader[];
  readonly phases: SeriesScene["phases"];
  readonly modules: SeriesScene["modules"];
  readonly trend: SeriesScene["trend"];
  readonly lane: string;
  pick(index: number): void;
}

/** Keeps a chart in the box: recreated for new data, a new theme or another zoom, resized with the box. */
function useChart(
  plot: { readonly current: HTMLDivElement | null },
  { store, look }: SeriesProps["report"],
  { series, layers, marks, phases, modules, trend, lane, pick }: Drawn,
  pinned: number | null,
): { readonly current: SeriesChart | null } {
  const now = look.value;
  const range = store.range.value;
  const scale = useSignal(1);
  const made = useRef<SeriesChart | null>(null);
  const picked = useRef(pick);
  picked.current = pick;
  // Not an effect after the frame: before the page is printed there is none.
  useLayoutEffect(() => {
    const box = plot.current;
    if (box === null) return;
    const colors = readColors(box, now.theme);
    const scene = {
      time_ns: series.time_ns,
      bands: layers,
      marks,
      phases,
      modules,
      moduleColor: phaseColor("forward", now.theme) + MODULE_ALPHA,
      trend,
      colors,
      scale: scale.value,
      onHover: (index: number | null) => {
        store.hover.value = index === null ? null : describePoint(lane, series, modules, index);
      },
      onPick: (index: number) => picked.current(index),
      onRange: (start: number, end: number) => {
        store.range.value = { start: ns(start), end: ns(end) };
      },
    };
    const chart = mountSeriesChart(box, scene, box.clientWidth, box.clientHeight);
    made.current = chart;
    const chosen = store.range.peek();
    if (chosen !== null) chart.show(chosen);
    chart.pin(pinned);
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
  }, [now, lane, series, layers, trend, scale.value]);
  useLayoutEffect(() => made.current?.show(range), [range]);
  useLayoutEffect(() => made.current?.pin(pinned), [pinned]);
  return made;
}

/** The change that the keys point at; -1 before the first key. */
function useCursor(
  { store }: SeriesProps["report"],
  series: LaneSeries,
  chart: { readonly current: SeriesChart | null },
  pick: (index: number) => void,
): SeriesCursor {
  const index: Signal<number> = useSignal(-1);
  const anchor = useRef<number | null>(null);
  const last = series.time_ns.length - 1;
  return {
    index,
    last,
    pick: () => pick(Math.max(0, index.value)),
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

function describePoint(
  lane: string,
  series: LaneSeries,
  modules: SeriesScene["modules"],
  index: number,
): FooterItem {
  const shown = [...series.bands, ...(series.stacked.length > 1 ? series.stacked : [])];
  const values = shown.flatMap(({ title, unit, values }) => {
    const value = values[index];
    const isKnown =
      typeof value === "number" && (value !== 0 || series.bands[0]?.values === values);
    return isKnown ? [`${title} ${formatValue(value, unit)}`] : [];
  });
  const time = series.time_ns[index] ?? 0;
  const at = modules.find(({ start, end }) => start <= time && time < end);
  const where = at === undefined ? [] : [`in ${at.name}`];
  return {
    name: lane,
    isCode: false,
    phase: "",
    facts: [`at ${formatNs(time)}`, ...where, ...values],
  };
}
