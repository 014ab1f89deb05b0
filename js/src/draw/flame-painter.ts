/** Paints the boxes of a flame graph, which the layout has placed. */

import { type Boxes, MERGED_ROW } from "../base/boxes";
import { cssColor, type Rgb } from "../base/color";
import { formatCount } from "../base/format";
import type { Px } from "../base/units";
import type { Numbers, TextColumn } from "../wire/frame";
import { outlineMatch, underline } from "./box-marks";
import type { CanvasSize } from "./canvas-view";
import { ChangeBrush, type TwoRuns } from "./change-painter";
import type { Colors } from "./colors";
import { type Fill, type FillTable, fillOf } from "./fills";
import { haloOnHatch, paintFill } from "./hatch";
import type { TextCache } from "./text-cache";

export const ROW_PX = 21;
const GAP_PX = 1;
const BOX_PX = ROW_PX - GAP_PX;
const TEXT_PX = 11.5;
const TEXT_PAD_PX = 5;
// Narrower boxes have no room for three characters.
const TEXT_MIN_BOX_PX = 30;
// Narrower boxes have no room for a number beside the name.
const SIZE_MIN_BOX_PX = 110;
const SIZE_GAP_PX = 12;
const BOLD_KINDS = ["line", "module", "python"];

export interface FlameScene {
  readonly boxes: Boxes;
  readonly names: TextColumn;
  /** What each name key is called in its box. */
  readonly titles: readonly string[];
  /** The calls of a row, for boxes that stand for many modules; null when they are not known. */
  readonly calls: ArrayLike<number> | null;
  /** How much a row has, in words. */
  readonly sizeOf: (row: number) => string;
  readonly parents: ArrayLike<number>;
  /** Whether a row does hardly anything but wait for other threads. */
  readonly isAwaiting: (row: number) => boolean;
  /** By how many steps the calls are divided. */
  readonly steps: number;
  readonly phases: TextColumn;
  readonly kinds: TextColumn;
  /** What each row has of two runs, and the width of its box in the same unit; null for the tree of one run. */
  readonly runs: (TwoRuns & { readonly whole: Numbers }) | null;
  readonly scrollTop: Px;
  /** Dictionary key of the selected name, -1 for none. */
  readonly selectedKey: number;
  readonly selectedRow: number;
  readonly hoverRow: number;
  /** 1 for each name key that matches the search; null without a search. */
  readonly matches: Uint8Array | null;
  /** The match that was gone to, -1 for none. */
  readonly currentMatch: number;
  readonly colors: Colors;
}

interface Brush {
  readonly context: CanvasRenderingContext2D;
  readonly scene: FlameScene;
  readonly size: CanvasSize;
  readonly texts: TextCache;
  readonly fills: FillTable;
  readonly merged: Fill;
  /** Paints what changed; null for the tree of one run. */
  readonly change: ChangeBrush | null;
  /** The sizes that are written, and those of boxes inside that have as much. */
  readonly told: Map<number, string>;
}

/** Paints the rows that the canvas shows. */
export function paintFlame(
  context: CanvasRenderingContext2D,
  size: CanvasSize,
  scene: FlameScene,
  texts: TextCache,
  fills: FillTable,
): void {
  texts.use(context, `${TEXT_PX}px ${scene.colors.codeFont}`);
  context.textBaseline = "middle";
  const merged = fillOf(scene.colors.merged);
  const change = scene.runs === null ? null : new ChangeBrush(context, scene.colors);
  const brush: Brush = { context, scene, size, texts, fills, merged, change, told: new Map() };
  const first = Math.max(0, Math.floor(scene.scrollTop / ROW_PX));
  const last = Math.ceil((scene.scrollTop + size.height) / ROW_PX);
  for (let depth = first; depth < last; depth += 1) paintDepth(brush, depth);
  outlineRow(brush, scene.hoverRow, scene.colors.text, 1);
  outlineRow(brush, scene.currentMatch, scene.colors.accent, 3);
  // An inner line in the background color separates the accent from boxes of a similar color.
  outlineRow(brush, scene.selectedRow, scene.colors.background, 5);
  outlineRow(brush, scene.selectedRow, scene.colors.accent, 3);
}

function paintDepth(brush: Brush, depth: number): void {
  const { boxes, scrollTop } = brush.scene;
  const top = depth * ROW_PX - scrollTop;
  const last = boxes.depthStart[depth + 1] ?? boxes.count;
  for (let box = boxes.depthStart[depth] ?? last; box < last; box += 1) paintBox(brush, box, top);
}

function paintBox(brush: Brush, box: number, top: number): void {
  const { context, scene, size } = brush;
  const row = scene.boxes.row[box] ?? MERGED_ROW;
  const left = Math.max(0, scene.boxes.left[box] ?? 0);
  const right = Math.min(size.width, (scene.boxes.left[box] ?? 0) + (scene.boxes.width[box] ?? 0));
  const key = row === MERGED_ROW ? -1 : (scene.names.keys[row] ?? -1);
  const fill = row === MERGED_ROW ? brush.merged : (brush.change?.same ?? fillAt(brush, row));
  const width = visibleWidth(right - left);
  paintFill(context, fill, left, top, width, BOX_PX);
  if (row !== MERGED_ROW) paintChange(brush, box, row, left, left + width, top);
  if (key >= 0 && key === scene.selectedKey)
    underline(context, scene.colors, left, top, width, BOX_PX);
  if (key >= 0 && width >= TEXT_MIN_BOX_PX) writeName(brush, row, key, fill, left, width, top);
  if (scene.matches?.[key] === 1) outlineMatch(context, scene.colors, left, top, width, BOX_PX);
}

function fillAt({ scene, fills }: Brush, row: number): Fill {
  return scene.isAwaiting(row) ? fills.waiting : fills.at(row);
}

/** Paints the part of a box that only one run has, where the window shows it. */
function paintChange(
  { scene, change }: Brush,
  box: number,
  row: number,
  from: number,
  to: number,
  top: number,
): void {
  if (scene.runs === null || change === null) return;
  const phase = scene.phases.words[scene.phases.keys[row] ?? -1];
  if (phase === "same") return;
  const { before, after, whole } = scene.runs;
  const [first = 0, second = 0] = [before[row], after[row]];
  const pxPerUnit = (scene.boxes.width[box] ?? 0) / Math.max(whole[row] ?? 0, Number.MIN_VALUE);
  const origin = scene.boxes.left[box] ?? 0;
  const left = Math.max(from, origin + Math.min(first, second) * pxPerUnit);
  const right = Math.min(to, origin + Math.max(first, second) * pxPerUnit);
  if (right > left) change.paint(second > first, left, top, right - left, BOX_PX);
}

/** Leaves a hairline gap to the next box if it is wide enough. */
function visibleWidth(width: number): number {
  if (width > 12) return width - GAP_PX;
  return width > 2 ? width - GAP_PX / 2 : Math.max(width, 0.5);
}

function writeName(
  brush: Brush,
  row: number,
  key: number,
  fill: Fill,
  left: number,
  width: number,
  top: number,
): void {
  const { context, scene } = brush;
  const kind = scene.kinds.words[scene.kinds.keys[row] ?? -1] ?? "";
  const calls = kind === "module" ? (scene.calls?.[row] ?? 0) / scene.steps : 0;
  const title = scene.titles[key] ?? "";
  const size = sizeIn(brush, row, width);
  const sizePx = size === "" ? 0 : context.measureText(size).width + SIZE_GAP_PX;
  const text = brush.texts.fit(
    calls > 1 ? `${title} ×${formatCount(calls)}` : title,
    width - 2 * TEXT_PAD_PX - sizePx,
  );
  if (text === "") return;
  context.fillStyle = fill.text;
  const [x, y] = [left + TEXT_PAD_PX, top + BOX_PX / 2 + 0.5];
  const write = (words: string, from: number) => {
    brush.change?.halo(words, from, y);
    haloOnHatch(context, fill, words, from, y);
    context.fillText(words, from, y);
  };
  if (size !== "") write(size, left + width - TEXT_PAD_PX - sizePx + SIZE_GAP_PX);
  const isBold = BOLD_KINDS.includes(kind);
  if (isBold) context.font = `600 ${TEXT_PX}px ${scene.colors.codeFont}`;
  write(text, x);
  if (isBold) context.font = `${TEXT_PX}px ${scene.colors.codeFont}`;
}

/** How much a box has, where there is room for it and the box around it has not told it. */
function sizeIn({ scene, change, told }: Brush, row: number, width: number): string {
  if (change !== null || width < SIZE_MIN_BOX_PX) return "";
  const size = scene.sizeOf(row);
  const isTold = told.get(scene.parents[row] ?? -1) === size;
  told.set(row, size);
  return isTold ? "" : size;
}

function outlineRow(brush: Brush, row: number, color: Rgb, widthPx: number): void {
  if (row < 0) return;
  const { boxes, scrollTop } = brush.scene;
  const box = boxes.row.subarray(0, boxes.count).indexOf(row);
  if (box < 0) return;
  const depth = depthOfBox(boxes, box);
  const left = Math.max(0, boxes.left[box] ?? 0);
  const right = Math.min(brush.size.width, (boxes.left[box] ?? 0) + (boxes.width[box] ?? 0));
  strokeEdge(brush.context, left, depth * ROW_PX - scrollTop, right - left, color, widthPx);
}

function depthOfBox(boxes: Boxes, box: number): number {
  return boxes.depthStart.findLastIndex((start) => start <= box);
}

function strokeEdge(
  context: CanvasRenderingContext2D,
  left: number,
  top: number,
  width: number,
  color: Rgb,
  lineWidth: number,
): void {
  context.strokeStyle = cssColor(color);
  context.lineWidth = lineWidth;
  // Centred on the edge of the box: half inside, half in the gap around it.
  context.strokeRect(left + 0.5, top + 0.5, Math.max(1, visibleWidth(width) - 1), BOX_PX - 1);
}
