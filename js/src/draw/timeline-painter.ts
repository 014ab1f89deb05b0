/** Paints a timeline: the axis, the lanes, what devices wait for, and the links of the selection. */

import { MERGED_ROW } from "../base/boxes";
import { cssColor, mix, type Rgb } from "../base/color";
import { formatCount, formatNs, formatRatio } from "../base/format";
import { measureRangeText, measureText } from "../base/measure";
import type { Scale, Span } from "../base/scale";
import { type Ns, ns, px } from "../base/units";
import type { Curve } from "../layout/curve";
import type { LaneBand } from "../layout/lane-bands";
import { coveredIn, firstStarting, type SliceIndex, type SliceRow } from "../layout/slice-index";
import { layoutSlices, SliceBoxes } from "../layout/slice-layout";
import { layoutWaits, type WaitBox, type Waits } from "../layout/waits";
import type { TextColumn } from "../wire/frame";
import type { SliceLane } from "../wire/header";
import type { CanvasSize } from "./canvas-view";
import type { Colors } from "./colors";
import { type CurveBrush, paintCounter, paintQueue, paintValue, yOfLevel } from "./curve-painter";
import { type FillTable, toned } from "./fills";
import type { TextCache } from "./text-cache";

export const AXIS_PX = 26;
const STRIP_PX = 4;
const TEXT_PX = 11;
const LABEL_PX = 12;
const TEXT_PAD_PX = 4;
const TEXT_MIN_PX = 26;
const ARROW_PX = 5;
const LINE_PX = 4;

/** A line from one slice to another. */
export interface Arrow {
  readonly from: number;
  readonly to: number;
}

export interface TimelineScene {
  readonly lanes: readonly SliceLane[];
  /** The slices of the shown layer. */
  readonly index: SliceIndex;
  /** The first layer, to which the rows of waits, busy times and steps belong. */
  readonly base: SliceIndex;
  readonly bands: readonly LaneBand[];
  readonly scale: Scale<Ns>;
  readonly gutter: number;
  readonly scrollTop: number;
  readonly names: TextColumn;
  /** What each name key is called in its box. */
  readonly titles: readonly string[];
  /** The slice that is selected, -1 for none, and the key of its name. */
  readonly selectedSlice: number;
  readonly selectedKey: number;
  readonly hoveredSlice: number;
  /** 1 for each row of the frame that a search finds. */
  readonly matches: Uint8Array | null;
  readonly currentMatch: number;
  readonly range: Span<Ns> | null;
  readonly arrows: readonly Arrow[];
  readonly ticks: readonly number[];
  readonly tickText: (time: number) => string;
  /** Where the axis begins to count. */
  readonly origin: number;
  readonly stepEdges: readonly number[];
  readonly stepPhases: SliceRow | null;
  readonly colors: Colors;
  waitsOf(lane: number): Waits | null;
  busyOf(lane: number): SliceRow | null;
  causeTitle(cause: number): string;
  /** The values of a queue or counter in the picture, and the highest of the whole recording. */
  curveOf(lane: number): { readonly curve: Curve; readonly highest: number } | null;
  /** The level of a slice of a counter. */
  levelOf(slice: number): number;
  /** Where a slice is: its lane, and its depth in this layer, -1 when it is hidden. */
  placeOf(row: number): { readonly lane: number; readonly depth: number };
  spanOf(row: number): Span<Ns>;
}

interface Brush {
  readonly context: CanvasRenderingContext2D;
  readonly scene: TimelineScene;
  readonly size: CanvasSize;
  readonly texts: TextCache;
  readonly fills: FillTable;
  readonly boxes: SliceBoxes;
}

const scratch = new SliceBoxes();

/** Paints the whole picture. */
export function paintTimeline(
  context: CanvasRenderingContext2D,
  size: CanvasSize,
  scene: TimelineScene,
  texts: TextCache,
  fills: FillTable,
): void {
  const brush: Brush = { context, scene, size, texts, fills, boxes: scratch };
  texts.use(context, `${TEXT_PX}px ${scene.colors.codeFont}`);
  context.textBaseline = "middle";
  paintGrid(brush);
  for (const band of scene.bands) {
    const top = band.top - scene.scrollTop + AXIS_PX;
    if (top + band.height < AXIS_PX || top > size.height) continue;
    clipped(brush, top, band.height, () => paintBand(brush, band, top));
    paintLabel(brush, band, top);
  }
  clipped(brush, AXIS_PX, size.height, () => {
    paintRange(brush);
    for (const arrow of scene.arrows) paintArrow(brush, arrow);
    outline(brush, scene.hoveredSlice, scene.colors.text, 1);
    outline(brush, scene.currentMatch, scene.colors.accent, 2);
    outline(brush, scene.selectedSlice, scene.colors.background, 5);
    outline(brush, scene.selectedSlice, scene.colors.accent, 2.5);
    paintHoveredValue(brush);
  });
  paintAxis(brush);
}

/** Draws only right of the labels. */
function clipped(brush: Brush, top: number, height: number, draw: () => void): void {
  const { context, scene, size } = brush;
  context.save();
  context.beginPath();
  context.rect(scene.gutter, Math.max(AXIS_PX, top), size.width - scene.gutter, height);
  context.clip();
  draw();
  context.restore();
}

function xOf({ scene }: Brush, time: number): number {
  return scene.gutter + scene.scale.toPx(ns(time));
}

function paintGrid(brush: Brush): void {
  const { context, scene, size } = brush;
  context.fillStyle = cssColor(scene.colors.line);
  for (const tick of scene.ticks) {
    const x = Math.round(xOf(brush, tick));
    if (x >= scene.gutter) context.fillRect(x, AXIS_PX, 1, size.height);
  }
  context.fillStyle = cssColor(mix(scene.colors.line, scene.colors.muted, 0.5));
  for (const edge of scene.stepEdges) {
    const x = Math.round(xOf(brush, edge));
    if (x > scene.gutter && x < size.width) context.fillRect(x, AXIS_PX - 4, 1, size.height);
  }
}

function paintAxis(brush: Brush): void {
  const { context, scene, size } = brush;
  const { colors } = scene;
  context.fillStyle = cssColor(colors.background);
  context.fillRect(0, 0, size.width, AXIS_PX - STRIP_PX);
  context.font = `${LABEL_PX}px ${colors.uiFont}`;
  context.fillStyle = cssColor(colors.muted);
  context.textAlign = "left";
  let free = scene.gutter;
  for (const tick of scene.ticks) {
    const x = xOf(brush, tick);
    const text = scene.tickText(tick - scene.origin);
    const width = context.measureText(text).width;
    if (x < free || x + width > size.width) continue;
    context.fillText(text, x + 3, (AXIS_PX - STRIP_PX) / 2);
    free = x + width + 12;
  }
  paintStrip(brush);
  paintRangeLabel(brush);
}

/** The phases of the steps, as a thin strip under the axis. */
function paintStrip(brush: Brush): void {
  const { context, scene, boxes, fills } = brush;
  if (scene.stepPhases === null) return;
  layoutSlices(scene.base, scene.stepPhases, scene.scale, boxes, (row) => fills.idOf(row));
  context.save();
  context.beginPath();
  context.rect(scene.gutter, 0, brush.size.width, AXIS_PX);
  context.clip();
  for (let box = 0; box < boxes.count; box += 1) {
    context.fillStyle = fills.at(boxes.like[box] ?? 0).box;
    const left = scene.gutter + (boxes.left[box] ?? 0);
    context.fillRect(left, AXIS_PX - STRIP_PX - 1, boxes.width[box] ?? 0, STRIP_PX);
  }
  context.restore();
}

function paintLabel(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  const lane = scene.lanes[band.lane];
  if (lane === undefined) return;
  const { kind } = lane;
  // A thread without ops begins with its calls.
  const title = band.isFirst ? lane.group : kind === "counters" ? kind : lane.title;
  const isMain = kind === "thread" || kind === "waits" || band.isFirst;
  const middle = top + Math.min(band.height, band.rowPx || band.height) / 2;
  if (middle < AXIS_PX + 4) return;
  context.font = `${isMain ? "600 " : ""}${LABEL_PX}px ${scene.colors.uiFont}`;
  context.textAlign = "left";
  const isDim = !isMain && kind !== "counter";
  context.fillStyle = cssColor(isDim ? scene.colors.muted : scene.colors.text);
  const mark = isMain || kind === "counters" ? (band.isFolded ? "▸ " : "▾ ") : "";
  const second = band.isFolded ? "" : secondLine(brush, band.lane, kind);
  const y = second === "" ? middle : middle - 7;
  context.fillText(fitted(context, mark + title, scene.gutter - 10), 2, y);
  if (second !== "") {
    context.font = `${LABEL_PX - 1}px ${scene.colors.uiFont}`;
    context.fillStyle = cssColor(scene.colors.muted);
    context.fillText(fitted(context, second, scene.gutter - 10), 2, middle + 8);
  }
  texts(brush);
}

/** What stands below the title of a lane: how busy a device is, or between which values a counter is. */
function secondLine(brush: Brush, lane: number, kind: SliceLane["kind"]): string {
  if (kind === "waits") return busyText(brush, lane);
  const scale = brush.scene.lanes[lane]?.scale;
  return scale == null ? "" : measureRangeText(scale);
}

/** Restores the font of the boxes. */
function texts(brush: Brush): void {
  brush.texts.use(brush.context, `${TEXT_PX}px ${brush.scene.colors.codeFont}`);
}

function busyText({ scene }: Brush, lane: number): string {
  const row = scene.busyOf(lane);
  const { start, end } = scene.scale.span;
  const busy = row === null ? 0 : coveredIn(scene.base, row, start, end);
  return `${formatRatio(busy / Math.max(1, end - start))} busy`;
}

function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}

function paintBand(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  const kind = scene.lanes[band.lane]?.kind;
  if (kind === "counters" || (band.isFolded && kind !== "counter")) {
    paintFolded(brush, band, top);
    return;
  }
  switch (kind) {
    case "waits":
      paintWaits(brush, band, top);
      return;
    case "queue":
    case "counter":
      paintCurve(brush, band, top);
      return;
    case "stream":
    case "calls":
      context.fillStyle = cssColor(mix(scene.colors.background, scene.colors.line, 0.4));
      context.fillRect(scene.gutter, top, brush.size.width, band.height);
      for (const row of scene.index.ofLane[band.lane] ?? [])
        paintNested(brush, row, top, band.height);
      return;
    default:
      for (const row of scene.index.ofLane[band.lane] ?? []) {
        const y = top + row.depth * band.rowPx;
        if (y + band.rowPx > 0 && y < brush.size.height) paintNested(brush, row, y, band.rowPx - 1);
      }
  }
}

function paintFolded(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  const first = scene.index.ofLane[band.lane]?.[0];
  if (first !== undefined && !band.isEmpty) {
    paintNested(brush, first, top, band.height);
    return;
  }
  context.font = `${LABEL_PX}px ${scene.colors.uiFont}`;
  context.fillStyle = cssColor(scene.colors.muted);
  context.textAlign = "left";
  const title = scene.lanes[band.lane]?.title ?? "";
  const text = band.isEmpty ? nothingHere(scene, first) : title;
  const left = scene.gutter + TEXT_PAD_PX;
  context.fillText(fitted(context, text, brush.size.width - left), left, top + band.height / 2);
  texts(brush);
}

function nothingHere({ index, scale, tickText, origin }: TimelineScene, row?: SliceRow): string {
  const next = row === undefined ? row : index.start[firstStarting(index, row, scale.span.end)];
  const isLater = next !== undefined && next >= scale.span.end;
  return `nothing here${isLater ? ` · next at ${tickText(next - origin)}` : ""}`;
}

/** Boxes as high as the row, with names; those narrower than a pixel as high as they cover. */
function paintNested(brush: Brush, row: SliceRow, top: number, height: number): void {
  const { context, scene, boxes, fills, size } = brush;
  layoutSlices(scene.index, row, scene.scale, boxes, (each) => fills.idOf(each));
  let style = "";
  for (let box = 0; box < boxes.count; box += 1) {
    const like = boxes.like[box] ?? 0;
    const fill = fills.at(like);
    if (fill.box !== style) {
      style = fill.box;
      context.fillStyle = style;
    }
    const width = boxes.width[box] ?? 0;
    const left = scene.gutter + (boxes.left[box] ?? 0);
    const from = Math.max(scene.gutter, left);
    const shown = Math.min(size.width, left + width) - from;
    const part =
      boxes.row[box] === MERGED_ROW ? Math.max(2, height * (boxes.cover[box] ?? 1)) : height;
    context.fillRect(from, top + height - part, shown > 3 ? shown - 1 : Math.max(shown, 0.6), part);
    if (boxes.row[box] === MERGED_ROW) continue;
    const key = scene.names.keys[like] ?? -1;
    if (shown >= TEXT_MIN_PX && height > 10) {
      const text = brush.texts.fit(scene.titles[key] ?? "", shown - 2 * TEXT_PAD_PX);
      if (text !== "") {
        context.fillStyle = fill.text;
        context.fillText(text, from + TEXT_PAD_PX, top + height / 2 + 0.5);
        style = "";
      }
    }
    if (scene.matches?.[like] === 1 || (key >= 0 && key === scene.selectedKey)) {
      markBox(brush, from, top, shown, height, key === scene.selectedKey);
      style = "";
    }
  }
}

function markBox(
  brush: Brush,
  left: number,
  top: number,
  width: number,
  height: number,
  isSelected: boolean,
): void {
  const { context, scene } = brush;
  if (isSelected) {
    context.fillStyle = cssColor(scene.colors.text);
    context.fillRect(left, top + height - 2, Math.max(1, width - 1), 2);
    return;
  }
  context.strokeStyle = cssColor(scene.colors.text);
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.75, top + 0.75, Math.max(0.5, width - 2.5), height - 1.5);
}

const HATCH_PX = 6;

function hatch(brush: Brush, left: number, top: number, width: number, height: number): void {
  const { context, scene, size } = brush;
  const from = Math.max(scene.gutter, left);
  const to = Math.min(size.width, left + width);
  if (to <= from) return;
  context.save();
  context.beginPath();
  context.rect(from, top, to - from, height);
  context.clip();
  context.strokeStyle = cssColor(mix(scene.colors.background, scene.colors.muted, 0.75));
  context.lineWidth = 1;
  context.beginPath();
  // From whole multiples on, so that the pattern stands still while the window moves over it.
  for (let x = Math.floor((from - height) / HATCH_PX) * HATCH_PX; x < to; x += HATCH_PX) {
    context.moveTo(x, top + height);
    context.lineTo(x + height, top);
  }
  context.stroke();
  context.restore();
}

function paintWaits(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene, size } = brush;
  const waits = scene.waitsOf(band.lane);
  context.fillStyle = cssColor(mix(scene.colors.background, scene.colors.line, 0.4));
  context.fillRect(scene.gutter, top, size.width, band.height);
  if (waits === null) return;
  for (const box of layoutWaits(waits, scene.scale)) paintWait(brush, box, top, band.height);
}

function paintWait(brush: Brush, box: WaitBox, top: number, height: number): void {
  const { context, scene, size } = brush;
  const left = Math.max(scene.gutter, scene.gutter + box.left);
  const right = Math.min(size.width, scene.gutter + box.left + box.width);
  const width = right - left;
  if (box.count > 1) {
    const share = box.ns / Math.max(1, scene.scale.lengthFromPx(px(box.width)));
    const part = Math.max(3, height * Math.min(1, share));
    hatch(brush, left, top + height - part, width, part);
  } else {
    hatch(brush, left, top, Math.max(1, width), height);
    context.strokeStyle = cssColor(scene.colors.muted);
    context.lineWidth = 1;
    if (width > 4) context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
    if (scene.matches?.[box.row] === 1) markBox(brush, left, top, width, height, false);
  }
  labelWait(brush, box, left, top, width, height);
}

/** What a wait is, and how long, on a plain ground in its middle. */
function labelWait(
  brush: Brush,
  box: WaitBox,
  left: number,
  top: number,
  width: number,
  height: number,
): void {
  const { context, scene } = brush;
  const long =
    box.count > 1 ? `${formatNs(box.ns)} in ${formatCount(box.count)} gaps` : formatNs(box.ns);
  const what = waitTitle(scene, box);
  context.font = `600 ${TEXT_PX}px ${scene.colors.uiFont}`;
  const longWidth = context.measureText(long).width;
  const shortWidth = context.measureText(formatNs(box.ns)).width;
  const room = width - 8;
  if (shortWidth > room) {
    texts(brush);
    return;
  }
  const second = longWidth <= room ? long : formatNs(box.ns);
  context.font = `${TEXT_PX}px ${scene.colors.uiFont}`;
  const first = room > 54 ? fitted(context, what, room) : "";
  const wide = Math.max(
    first === "" ? 0 : context.measureText(first).width,
    longWidth <= room ? longWidth : shortWidth,
  );
  const middle = left + width / 2;
  const lines = first === "" ? 1 : 2;
  const ground = lines * 14;
  context.fillStyle = cssColor(scene.colors.background);
  context.fillRect(middle - wide / 2 - 4, top + (height - ground) / 2, wide + 8, ground);
  context.textAlign = "center";
  context.fillStyle = cssColor(scene.colors.text);
  const y = top + height / 2;
  if (first !== "") context.fillText(first, middle, y - 7);
  context.font = `600 ${TEXT_PX}px ${scene.colors.uiFont}`;
  context.fillText(second, middle, first === "" ? y : y + 7);
  context.textAlign = "left";
  texts(brush);
}

/** "in aten::copy_" for one wait, "launching ops" for a stretch of many. */
export function waitTitle(
  scene: Pick<TimelineScene, "names" | "titles" | "causeTitle">,
  box: WaitBox,
): string {
  const name = scene.titles[scene.names.keys[box.row] ?? -1] ?? "";
  const cause = scene.causeTitle(box.cause);
  if (box.count > 1) return `mostly ${cause}`;
  return name === "" ? cause : `${cause} · ${name}`;
}

function paintCurve(brush: Brush, band: LaneBand, top: number): void {
  const { scene } = brush;
  const found = scene.curveOf(band.lane);
  const row = scene.index.ofLane[band.lane]?.[0];
  if (found === null || row === undefined) return;
  const { curve, highest } = found;
  const scale = scene.lanes[band.lane]?.scale;
  if (scale == null) paintQueue(curveBrush(brush), row, curve, highest, top, band.height);
  else paintCounter(curveBrush(brush), row, curve, scale, top, band.height);
  texts(brush);
}

function curveBrush({ context, scene, size }: Brush): CurveBrush {
  const { index, scale, gutter, colors } = scene;
  return { context, index, scale, gutter, width: size.width, colors };
}

/** The value of the counter under the pointer. */
function paintHoveredValue(brush: Brush): void {
  const { scene } = brush;
  const box = boxOfSlice(scene, scene.hoveredSlice);
  const scale = scene.lanes[scene.placeOf(scene.hoveredSlice).lane]?.scale;
  if (box === null || scale == null) return;
  const text = measureText(scale, scene.levelOf(scene.hoveredSlice));
  paintValue(curveBrush(brush), text, box.left, box.top);
  texts(brush);
}

function paintRange(brush: Brush): void {
  const { context, scene, size } = brush;
  if (scene.range === null) return;
  const left = xOf(brush, scene.range.start);
  const right = xOf(brush, scene.range.end);
  context.fillStyle = cssColor(scene.colors.accent);
  context.globalAlpha = 0.1;
  context.fillRect(left, AXIS_PX, right - left, size.height);
  context.globalAlpha = 1;
  context.fillRect(Math.round(left), AXIS_PX, 1, size.height);
  context.fillRect(Math.round(right), AXIS_PX, 1, size.height);
}

function paintRangeLabel(brush: Brush): void {
  const { context, scene, size } = brush;
  if (scene.range === null) return;
  const text = formatNs(scene.range.end - scene.range.start);
  context.font = `600 ${LABEL_PX}px ${scene.colors.uiFont}`;
  const width = context.measureText(text).width + 14;
  const middle = (xOf(brush, scene.range.start) + xOf(brush, scene.range.end)) / 2;
  const left = Math.min(Math.max(middle - width / 2, scene.gutter), size.width - width);
  context.fillStyle = cssColor(scene.colors.accent);
  context.fillRect(left, 3, width, AXIS_PX - STRIP_PX - 5);
  context.fillStyle = cssColor(scene.colors.background);
  context.fillText(text, left + 7, (AXIS_PX - STRIP_PX) / 2);
}

/** Where a slice is in the picture; null when its lane or level is not shown. */
export function boxOfSlice(
  scene: TimelineScene,
  row: number,
): {
  readonly left: number;
  readonly width: number;
  readonly top: number;
  readonly height: number;
} | null {
  if (row < 0) return null;
  const { lane, depth } = scene.placeOf(row);
  const band = scene.bands.find((each) => each.lane === lane);
  if (band === undefined || depth < 0) return null;
  const { start, end } = scene.spanOf(row);
  const left = scene.gutter + scene.scale.toPx(start);
  const width = Math.max(2, scene.scale.lengthToPx(ns(end - start)));
  const top = band.top - scene.scrollTop + AXIS_PX;
  if (scene.lanes[lane]?.scale != null) {
    // Of a curve, the line.
    const y = yOfLevel(scene.levelOf(row), top, band.height);
    return { left, width, top: y - LINE_PX / 2, height: LINE_PX };
  }
  const isNested =
    !band.isFolded && ["thread", "annotations"].includes(scene.lanes[lane]?.kind ?? "");
  return {
    left,
    width,
    top: top + (isNested ? depth * band.rowPx : 0),
    height: isNested ? band.rowPx - 1 : band.height,
  };
}

function outline(brush: Brush, row: number, color: Rgb, width: number): void {
  const box = boxOfSlice(brush.scene, row);
  if (box === null) return;
  const { context, size } = brush;
  context.strokeStyle = cssColor(color);
  context.lineWidth = width;
  const left = Math.max(-10, box.left);
  const right = Math.min(size.width + 10, box.left + box.width);
  if (right < left) return;
  context.strokeRect(left, box.top, Math.max(2, right - left), box.height);
}

/** A curve from the end of the call to the start of the work, or from a forward op to its backward op. */
function paintArrow(brush: Brush, { from, to }: Arrow): void {
  const { context, scene } = brush;
  const begin = boxOfSlice(scene, from);
  const end = boxOfSlice(scene, to);
  if (begin === null || end === null) return;
  const isDown = end.top > begin.top;
  const x1 = begin.left + Math.min(begin.width / 2, 6);
  const y1 = isDown ? begin.top + begin.height : begin.top;
  const x2 = end.left + Math.min(2, end.width / 2);
  const y2 = isDown ? end.top : end.top + end.height;
  context.strokeStyle = cssColor(scene.colors.accent);
  context.fillStyle = cssColor(scene.colors.accent);
  context.lineWidth = 1.5;
  context.beginPath();
  const bend = Math.max(14, Math.abs(y2 - y1) / 2) * (isDown ? 1 : -1);
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
  context.stroke();
  context.beginPath();
  const tip = isDown ? -ARROW_PX : ARROW_PX;
  context.moveTo(x2, y2);
  context.lineTo(x2 - ARROW_PX * 0.7, y2 + tip);
  context.lineTo(x2 + ARROW_PX * 0.7, y2 + tip);
  context.fill();
}

/** The color of busy time in the minimap. */
export function busyColor(colors: Colors): string {
  return cssColor(toned("waiting", "annotation", colors));
}
