/** What a timeline shows, and what its painters share. */

import type { Scale, Span } from "../../base/scale";
import { type Ns, ns } from "../../base/units";
import type { Curve } from "../../layout/curve";
import type { LaneBand } from "../../layout/lane-bands";
import type { SliceIndex, SliceRow } from "../../layout/slice-index";
import type { SliceBoxes } from "../../layout/slice-layout";
import type { Waits } from "../../layout/waits";
import type { TextColumn } from "../../wire/frame";
import type { SliceLane } from "../../wire/header";
import type { CanvasSize } from "../canvas-view";
import type { Colors } from "../colors";
import type { FillTable } from "../fills";
import type { TextCache } from "../text-cache";

export const AXIS_PX = 26;
/** The strip of the phases under the axis. */
export const STRIP_PX = 4;
export const TEXT_PX = 11;
export const LABEL_PX = 12;
export const TEXT_PAD_PX = 4;

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
  /** The longest wait of a device in the window, on its lane. */
  readonly longest: (Span<Ns> & { readonly lane: number }) | null;
  readonly arrows: readonly Arrow[];
  readonly ticks: readonly number[];
  readonly tickText: (time: number) => string;
  /** Where the axis begins to count. */
  readonly origin: number;
  readonly stepEdges: readonly number[];
  readonly stepPhases: SliceRow | null;
  readonly colors: Colors;
  /** The parts of the critical path in a lane; null where nothing is dimmed. */
  pathOf(lane: number): readonly Span<Ns>[] | null;
  waitsOf(lane: number): Waits | null;
  /** From when on it is known whether devices wait. */
  readonly waitsFrom: number;
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

export interface Brush {
  readonly context: CanvasRenderingContext2D;
  readonly scene: TimelineScene;
  readonly size: CanvasSize;
  readonly texts: TextCache;
  readonly fills: FillTable;
  readonly boxes: SliceBoxes;
}

export function xOf({ scene }: Brush, time: number): number {
  return scene.gutter + scene.scale.toPx(ns(time));
}

/** Restores the font of the boxes. */
export function restoreBoxFont(brush: Brush): void {
  brush.texts.use(brush.context, `${TEXT_PX}px ${brush.scene.colors.codeFont}`);
}

/** A text, or as much of its beginning as there is room for. */
export function fitted(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}
