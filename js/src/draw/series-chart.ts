/** A chart of values over time: uPlot with axes, marks and colors of the report. */

import uPlot from "uplot";
import { cssColor } from "../base/color";
import { axisNumbers, ROUND, roundSteps, type Unit } from "../base/format";
import { moduleTitle, shortenName } from "../base/names";
import type { Span } from "../base/scale";
import type { Ns } from "../base/units";
import { type ModuleCall, moduleBoxes } from "../layout/module-boxes";
import { placeOfTime, topOfAreas } from "../layout/series-lane";
import { tickLabel } from "../layout/time-ticks";
import type { MarkHeader } from "../wire/header";
import type { Colors } from "./colors";

export interface Band {
  readonly title: string;
  readonly unit: Unit;
  readonly color: string;
  /** Filled down to the axis: as a pale area, or in full as a part of a stack, which the next one covers. */
  readonly fill: "none" | "pale" | "full";
  readonly values: readonly (number | null)[];
}

export interface SeriesScene {
  readonly time_ns: readonly number[];
  readonly bands: readonly Band[];
  readonly marks: readonly MarkHeader[];
  readonly colors: Colors;
  /** The phases of the steps, as a strip on top. */
  readonly phases: readonly {
    readonly start: number;
    readonly end: number;
    readonly color: string;
  }[];
  /** Calls of modules, as named boxes below that strip. */
  readonly modules: readonly ModuleCall[];
  readonly moduleColor: string;
  /** Points that a dashed line connects, such as what each step leaves behind. */
  readonly trend: readonly { readonly time_ns: number; readonly value: number }[];
  /** The index under the pointer, null when it left. */
  readonly onHover: (index: number | null) => void;
  /** The index that was clicked. */
  readonly onPick: (index: number) => void;
  /** A range of time that was chosen with a drag. */
  readonly onRange: (start: number, end: number) => void;
  /** How many pixels of the window one pixel of the page takes; the chart is drawn in those of the window. */
  readonly scale: number;
}

export interface SeriesChart {
  resize(width: number, height: number): void;
  /** Moves the cursor to an index, as the pointer does. */
  point(index: number): void;
  /** Marks a moment; null for none. */
  pin(time_ns: number | null): void;
  /** Shows a part of the time; null for all of it. */
  show(part: Span<Ns> | null): void;
  destroy(): void;
}

const AREA_ALPHA = "55";
// Height of the strip of phases.
const STRIP_PX = 5;
const STRIP_GAP_PX = 2;
// Height of the boxes of modules, the space around their names, and the least width for one.
const MODULE_PX = 15;
const MODULE_PADDING_PX = 4;
const LEAST_NAME_PX = 18;
// Narrower calls of equal modules share a box.
const WIDE_PX = 48;
// Radius of the rings of a trend.
const TREND_PX = 3.5;
// Radius of the dot at a peak.
const PEAK_PX = 4;
const AXIS_PX = 62;
const LABEL_PX = 11;
// About the width of a character of a label.
const CHAR_PX = 6;
// Space for half of the label of a tick at the right edge.
const RIGHT_PX = 28;
const LABEL_GAP_PX = 5;
// Space above the highest value for the label of the peak.
const HEADROOM = 1.14;

/** Draws a scene into `element`. */
export function mountSeriesChart(
  element: HTMLElement,
  scene: SeriesScene,
  width: number,
  height: number,
): SeriesChart {
  const { scale } = scene;
  const data: uPlot.AlignedData = [
    Array.from(scene.time_ns),
    ...scene.bands.map((band) => Array.from(band.values)),
  ];
  const pinned: Pinned = { time_ns: null };
  const options = chartOptions(scene, pinned, width * scale, height * scale);
  const chart = new uPlot(options, data, element);
  // uPlot keeps the click that ends a drag to itself.
  chart.over.addEventListener("click", () => {
    const index = chart.cursor.idx;
    if (typeof index === "number") scene.onPick(index);
  });
  // uPlot knows no zoom but the browser's own, so that of the page is taken back around it.
  if (scale !== 1) chart.root.style.zoom = String(1 / scale);
  return {
    resize: (nextWidth, nextHeight) =>
      chart.setSize({ width: nextWidth * scale, height: nextHeight * scale }),
    point: (index) => {
      const left = chart.valToPos(scene.time_ns[index] ?? 0, "x");
      chart.setCursor({ left, top: 0 });
    },
    pin: (time_ns) => {
      if (pinned.time_ns === time_ns) return;
      pinned.time_ns = time_ns;
      chart.redraw(false);
    },
    show: (part) => {
      const min = part?.start ?? scene.time_ns[0] ?? 0;
      const max = part?.end ?? scene.time_ns.at(-1) ?? 1;
      // A single change has no extent, and keeps the one that uPlot gives it.
      if (min < max) chart.setScale("x", { min, max });
    },
    destroy: () => chart.destroy(),
  };
}

/** The moment that is marked, which changes without a new chart. */
interface Pinned {
  time_ns: number | null;
}

function chartOptions(
  scene: SeriesScene,
  pinned: Pinned,
  width: number,
  height: number,
): uPlot.Options {
  return {
    width,
    height,
    legend: { show: false },
    padding: [(8 + modulesPx(scene)) * scene.scale, RIGHT_PX * scene.scale, 0, 0],
    scales: {
      x: { time: false },
      y: { range: (_chart, _low, high) => [0, (high || 1) * HEADROOM] },
    },
    axes: [timeAxis(scene), valueAxis(scene)],
    series: [{}, ...scene.bands.map((band) => bandSeries(band, scene.scale))],
    cursor: { y: false, points: { size: 6 * scene.scale }, drag: { x: true, setScale: false } },
    hooks: {
      // Over the bands and the grid, so that neither goes through a label.
      draw: [
        (chart) => {
          drawSteps(chart, scene);
          drawPhases(chart, scene);
          drawModules(chart, scene);
          drawTrend(chart, scene);
          drawPeaks(chart, scene);
          drawPinned(chart, scene, pinned);
          drawPeakDots(chart, scene);
        },
      ],
      setSelect: [(chart) => chooseRange(chart, scene)],
      setCursor: [(chart) => scene.onHover(chart.cursor.idx ?? null)],
    },
  };
}

function axisBase({ colors, scale }: SeriesScene): uPlot.Axis {
  return {
    stroke: cssColor(colors.muted),
    // uPlot reads whole numbers only.
    font: `${Math.round(LABEL_PX * scale)}px ${colors.uiFont}`,
    gap: 8 * scale,
    grid: { stroke: cssColor(colors.line), width: scale },
    ticks: { show: false },
  };
}

function timeAxis(scene: SeriesScene): uPlot.Axis {
  return {
    ...axisBase(scene),
    grid: { show: false },
    size: 28 * scene.scale,
    space: 90 * scene.scale,
    incrs: ROUND,
    values: (_chart, ticks) => {
      const label = tickLabel((ticks[1] ?? 1) - (ticks[0] ?? 0), ticks.at(-1) ?? 0);
      return ticks.map((tick) => (tick === 0 ? "0" : label(tick)));
    },
  };
}

/** All bands share one axis, in the unit of the first. */
function valueAxis(scene: SeriesScene): uPlot.Axis {
  const unit = scene.bands[0]?.unit ?? "count";
  return {
    ...axisBase(scene),
    size: AXIS_PX * scene.scale,
    space: 44 * scene.scale,
    ...(unit === "bytes" ? { incrs: (_chart, _axis, _low, high) => roundSteps(unit, high) } : {}),
    // The unit stands once, at the top.
    values: (_chart, ticks) => {
      const { suffix, texts } = axisNumbers(unit, ticks);
      return texts.map((text, at) => (at === texts.length - 1 ? `${text} ${suffix}` : text));
    },
  };
}

function bandSeries(band: Band, scale: number): uPlot.Series {
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const fills = { none: {}, pale: { fill: band.color + AREA_ALPHA }, full: { fill: band.color } };
  return {
    label: band.title,
    stroke: band.color,
    width: band.fill === "full" ? 0 : 1.25 * scale,
    points: { show: false },
    ...fills[band.fill],
    ...(band.fill === "none" ? { dash: [4 * scale, 3 * scale] } : {}),
    ...(stepped ? { paths: stepped } : {}),
  };
}

/** Calls `draw` with the x of every mark of a kind that lies in the plot, in device pixels. */
function eachMark(
  chart: uPlot,
  scene: SeriesScene,
  kind: MarkHeader["kind"],
  draw: (mark: MarkHeader, x: number, ratio: number) => void,
): void {
  const { left, width } = chart.bbox;
  for (const mark of scene.marks) {
    if (mark.kind !== kind) continue;
    const x = Math.round(chart.valToPos(mark.time_ns, "x", true));
    if (x >= left && x <= left + width) draw(mark, x, uPlot.pxRatio * scene.scale);
  }
}

// A shorter drag is a click.
const LEAST_DRAG_PX = 4;

function chooseRange(chart: uPlot, scene: SeriesScene): void {
  const { left, width, top, height } = chart.select;
  if (width < LEAST_DRAG_PX) return;
  scene.onRange(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
  chart.setSelect({ left: 0, width: 0, top, height }, false);
}

/** Writes a label on a plain ground, so that no line goes through it. */
function writeLabel(chart: uPlot, scene: SeriesScene, text: string, x: number, y: number): void {
  const { ctx } = chart;
  const ratio = uPlot.pxRatio * scene.scale;
  const width = ctx.measureText(text).width;
  const left = ctx.textAlign === "right" ? x - width : x;
  const color = ctx.fillStyle;
  ctx.fillStyle = cssColor(scene.colors.background);
  ctx.fillRect(left - 2, y - 1, width + 4, LABEL_PX * ratio + 3);
  ctx.fillStyle = color;
  ctx.fillText(text, x, y);
}

function verticalLine(
  chart: uPlot,
  x: number,
  from: number,
  to = chart.bbox.top + chart.bbox.height,
): void {
  chart.ctx.beginPath();
  chart.ctx.moveTo(x, from);
  chart.ctx.lineTo(x, to);
  chart.ctx.stroke();
}

function drawSteps(chart: uPlot, scene: SeriesScene): void {
  const { ctx, bbox } = chart;
  ctx.save();
  let freeFrom = 0;
  eachMark(chart, scene, "step", (mark, x, ratio) => {
    ctx.strokeStyle = cssColor(scene.colors.line);
    ctx.lineWidth = ratio;
    verticalLine(chart, x, bbox.top);
    ctx.font = `${LABEL_PX * ratio}px ${scene.colors.uiFont}`;
    ctx.fillStyle = cssColor(scene.colors.muted);
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    const end = x + ctx.measureText(mark.label).width + 2 * LABEL_GAP_PX * ratio;
    if (x < freeFrom || end > bbox.left + bbox.width) return;
    writeLabel(chart, scene, mark.label, x + LABEL_GAP_PX * ratio, bbox.top);
    freeFrom = end;
  });
  ctx.restore();
}

function drawPeaks(chart: uPlot, scene: SeriesScene): void {
  const { ctx } = chart;
  ctx.save();
  eachMark(chart, scene, "peak", (mark, x, ratio) => {
    ctx.strokeStyle = cssColor(scene.colors.text);
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    // Down to the dot: below it, the curve is to be seen.
    verticalLine(chart, x, chart.bbox.top, peakY(chart, scene, mark));
    labelPeak(chart, scene, mark, x, ratio);
  });
  ctx.restore();
}

/** The areas at one place, which may last for less than a pixel. */
function fillColumn(chart: uPlot, scene: SeriesScene, place: number, x: number, ratio: number) {
  const bottom = chart.valToPos(0, "y", true);
  for (const { fill, color, values } of scene.bands) {
    if (fill === "none") continue;
    const top = chart.valToPos(values[place] ?? 0, "y", true);
    chart.ctx.fillStyle = color;
    chart.ctx.fillRect(x - ratio, top, 2 * ratio, bottom - top);
  }
}

/** Where the curve is at the moment of a mark. */
function peakY(chart: uPlot, scene: SeriesScene, { time_ns }: MarkHeader): number {
  const place = placeOfTime(scene.time_ns, time_ns);
  return chart.valToPos(topOfAreas(scene.bands, place), "y", true);
}

/** A dot where the curve reaches its peak, over everything else. */
function drawPeakDots(chart: uPlot, scene: SeriesScene): void {
  const { ctx } = chart;
  ctx.save();
  eachMark(chart, scene, "peak", (mark, x, ratio) => {
    fillColumn(chart, scene, placeOfTime(scene.time_ns, mark.time_ns), x, ratio);
    ctx.fillStyle = cssColor(scene.colors.text);
    ctx.beginPath();
    ctx.arc(x, peakY(chart, scene, mark), PEAK_PX * ratio, 0, 2 * Math.PI);
    ctx.fill();
  });
  ctx.restore();
}

/** The phases of the steps over the plot. */
function drawPhases(chart: uPlot, scene: SeriesScene): void {
  const { ctx, bbox } = chart;
  const ratio = uPlot.pxRatio * scene.scale;
  const right = bbox.left + bbox.width;
  for (const { start, end, color } of scene.phases) {
    const from = Math.max(bbox.left, chart.valToPos(start, "x", true));
    const to = Math.min(right, chart.valToPos(end, "x", true));
    if (to <= from) continue;
    ctx.fillStyle = color;
    const above = STRIP_PX + STRIP_GAP_PX + modulesPx(scene);
    ctx.fillRect(from, bbox.top - above * ratio, to - from, STRIP_PX * ratio);
  }
}

/** The space that modules take above the plot. */
function modulesPx({ modules }: SeriesScene): number {
  return modules.length > 0 ? MODULE_PX + STRIP_GAP_PX : 0;
}

/** The calls of modules between the phases and the plot, with their names where there is room. */
function drawModules(chart: uPlot, scene: SeriesScene): void {
  const { ctx, bbox } = chart;
  const ratio = uPlot.pxRatio * scene.scale;
  const top = bbox.top - (MODULE_PX + STRIP_GAP_PX) * ratio;
  ctx.save();
  ctx.font = `${LABEL_PX * ratio}px ${scene.colors.uiFont}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const least = chart.posToVal(WIDE_PX * ratio, "x", true) - chart.posToVal(0, "x", true);
  for (const { start, end, name } of moduleBoxes(scene.modules, least)) {
    const left = Math.max(bbox.left, chart.valToPos(start, "x", true));
    const right = Math.min(bbox.left + bbox.width, chart.valToPos(end, "x", true));
    const width = Math.max(right - left - ratio, 0);
    if (width === 0) continue;
    ctx.fillStyle = scene.moduleColor;
    ctx.fillRect(left, top, width, MODULE_PX * ratio);
    const room = width - 2 * MODULE_PADDING_PX * ratio;
    if (room < LEAST_NAME_PX * ratio) continue;
    ctx.fillStyle = cssColor(scene.colors.text);
    const text = shortenName(moduleTitle(name), Math.floor(room / (CHAR_PX * ratio)));
    ctx.fillText(text, left + MODULE_PADDING_PX * ratio, top + (MODULE_PX / 2) * ratio, room);
  }
  ctx.restore();
}

/** What stays, from step to step: a dashed line through rings. */
function drawTrend(chart: uPlot, scene: SeriesScene): void {
  if (scene.trend.length < 2) return;
  const { ctx, bbox } = chart;
  const ratio = uPlot.pxRatio * scene.scale;
  const places = scene.trend.map(({ time_ns, value }) => ({
    x: chart.valToPos(time_ns, "x", true),
    y: chart.valToPos(value, "y", true),
  }));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - TREND_PX * ratio, bbox.top, bbox.width + 2 * TREND_PX * ratio, bbox.height);
  ctx.clip();
  ctx.strokeStyle = cssColor(scene.colors.text);
  ctx.fillStyle = cssColor(scene.colors.background);
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  ctx.beginPath();
  for (const { x, y } of places) ctx.lineTo(x, y);
  ctx.stroke();
  ctx.setLineDash([]);
  for (const { x, y } of places) {
    ctx.beginPath();
    ctx.arc(x, y, TREND_PX * ratio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

/** The moment whose blocks are listed. */
function drawPinned(chart: uPlot, scene: SeriesScene, { time_ns }: Pinned): void {
  // A peak has its own mark, which this would cover.
  const isPeak = scene.marks.some((mark) => mark.kind === "peak" && mark.time_ns === time_ns);
  if (time_ns === null || isPeak) return;
  const { ctx, bbox } = chart;
  const x = Math.round(chart.valToPos(time_ns, "x", true));
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = cssColor(scene.colors.accent);
  ctx.lineWidth = 2 * uPlot.pxRatio * scene.scale;
  verticalLine(chart, x, bbox.top);
  ctx.restore();
}

/** Writes the label right of its line, or left of it at the right edge. */
function labelPeak(
  chart: uPlot,
  scene: SeriesScene,
  mark: MarkHeader,
  x: number,
  ratio: number,
): void {
  const { ctx, bbox } = chart;
  ctx.font = `600 ${LABEL_PX * ratio}px ${scene.colors.uiFont}`;
  ctx.fillStyle = cssColor(scene.colors.text);
  ctx.textBaseline = "top";
  const room = bbox.left + bbox.width - x;
  const isRight = ctx.measureText(mark.label).width + LABEL_GAP_PX * ratio < room;
  ctx.textAlign = isRight ? "left" : "right";
  const gap = LABEL_GAP_PX * ratio * (isRight ? 1 : -1);
  // One line below the names of the steps.
  writeLabel(chart, scene, mark.label, x + gap, bbox.top + (LABEL_PX + LABEL_GAP_PX) * ratio);
}
