/** Paints the boxes of a flame graph, which the layout has placed. */

import { type Boxes, MERGED_ROW } from "../base/boxes";
import { cssColor, mix, parseColor, type Rgb, textOn } from "../base/color";
import { phaseColor } from "../base/palette";
import type { Px } from "../base/units";
import type { TextColumn } from "../wire/frame";
import type { CanvasSize } from "./canvas-view";
import type { Colors } from "./colors";
import type { TextCache } from "./text-cache";

export const ROW_PX = 19;
const GAP_PX = 1;
const TEXT_PX = 11.5;
const TEXT_PAD_PX = 5;
// Narrower boxes have no room for three characters.
const TEXT_MIN_BOX_PX = 30;
const DIMMED_ALPHA = 0.22;
const KERNEL_LIGHTER = 0.34;
// Boxes that say where in the program something ran, rather than what ran.
const PLACES = ["root", "line", "module", "python"];
const WHITE: Rgb = [255, 255, 255];
const MARK_PX = 2;

export interface FlameScene {
  readonly boxes: Boxes;
  readonly names: TextColumn;
  readonly phases: TextColumn;
  readonly kinds: TextColumn;
  readonly scrollTop: Px;
  /** Dictionary key of the selected name, -1 for none. */
  readonly selectedKey: number;
  readonly selectedRow: number;
  readonly hoverRow: number;
  /** 1 for each name key that matches the search; null without a search. */
  readonly matches: Uint8Array | null;
  readonly colors: Colors;
}

interface Fill {
  readonly box: string;
  readonly text: string;
}

interface Brush {
  readonly context: CanvasRenderingContext2D;
  readonly scene: FlameScene;
  readonly size: CanvasSize;
  readonly texts: TextCache;
  readonly fills: FillTable;
}

/** The fill of every pair of phase and kind, mixed once per theme. */
export class FillTable {
  readonly #fills = new Map<number, Fill>();
  readonly #merged: Fill;
  readonly #scene: Pick<FlameScene, "phases" | "kinds" | "colors">;

  constructor(scene: Pick<FlameScene, "phases" | "kinds" | "colors">) {
    this.#scene = scene;
    this.#merged = fillOf(scene.colors.merged);
  }

  at(row: number): Fill {
    if (row === MERGED_ROW) return this.#merged;
    const { phases, kinds } = this.#scene;
    const phase = phases.keys[row] ?? -1;
    const kind = kinds.keys[row] ?? -1;
    const id = (phase + 1) * (kinds.words.length + 1) + kind + 1;
    const known = this.#fills.get(id) ?? this.#mixed(phase, kind);
    this.#fills.set(id, known);
    return known;
  }

  #mixed(phase: number, kind: number): Fill {
    const { phases, kinds, colors } = this.#scene;
    const kindName = kinds.words[kind] ?? "";
    if (PLACES.includes(kindName)) return fillOf(colors.neutral);
    const hue = parseColor(phaseColor(phases.words[phase] ?? "", colors.theme)) ?? colors.neutral;
    const isKernel = kindName === "kernel";
    return fillOf(isKernel ? kernelColor(hue) : hue);
  }
}

/** A kernel has the hue of its phase but is lighter than the op that launched it. */
export function kernelColor(hue: Rgb): Rgb {
  return mix(hue, WHITE, KERNEL_LIGHTER);
}

function fillOf(rgb: Rgb): Fill {
  return { box: cssColor(rgb), text: cssColor(textOn(rgb)) };
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
  const brush: Brush = { context, scene, size, texts, fills };
  const first = Math.max(0, Math.floor(scene.scrollTop / ROW_PX));
  const last = Math.ceil((scene.scrollTop + size.height) / ROW_PX);
  for (let depth = first; depth < last; depth += 1) paintDepth(brush, depth);
  context.globalAlpha = 1;
  outlineRow(brush, scene.hoverRow, scene.colors.text, 1);
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
  const fill = brush.fills.at(row);
  context.globalAlpha = scene.matches === null || scene.matches[key] === 1 ? 1 : DIMMED_ALPHA;
  context.fillStyle = fill.box;
  const width = visibleWidth(right - left);
  context.fillRect(left, top, width, ROW_PX - GAP_PX);
  if (key >= 0 && key === scene.selectedKey) markBox(brush, left, width, top);
  if (key >= 0 && width >= TEXT_MIN_BOX_PX) writeName(brush, key, fill, left, width, top);
}

/** Leaves a hairline gap to the next box if it is wide enough. */
function visibleWidth(width: number): number {
  if (width > 12) return width - GAP_PX;
  return width > 2 ? width - GAP_PX / 2 : Math.max(width, 0.5);
}

function markBox(brush: Brush, left: number, width: number, top: number): void {
  brush.context.fillStyle = cssColor(brush.scene.colors.text);
  brush.context.fillRect(left, top + ROW_PX - GAP_PX - MARK_PX, width, MARK_PX);
}

function writeName(
  brush: Brush,
  key: number,
  fill: Fill,
  left: number,
  width: number,
  top: number,
): void {
  const name = brush.scene.names.words[key] ?? "";
  const text = brush.texts.fit(name, width - 2 * TEXT_PAD_PX);
  if (text === "") return;
  const isDimmed = brush.context.globalAlpha < 1;
  brush.context.fillStyle = isDimmed ? cssColor(brush.scene.colors.text) : fill.text;
  if (isDimmed) brush.context.globalAlpha = 0.5;
  brush.context.fillText(text, left + TEXT_PAD_PX, top + (ROW_PX - GAP_PX) / 2 + 0.5);
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
  context.strokeRect(
    left + 0.5,
    top + 0.5,
    Math.max(1, visibleWidth(width) - 1),
    ROW_PX - GAP_PX - 1,
  );
}
