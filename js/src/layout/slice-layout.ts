/** Places the slices of one row in a window. What is narrower than a pixel becomes coverage. */

import { MERGED_ROW } from "../base/boxes";
import { doubled } from "../base/columns";
import type { Scale } from "../base/scale";
import { type Ns, ns, px } from "../base/units";
import {
  countIn,
  durationAt,
  firstEnding,
  firstStarting,
  type SliceIndex,
  type SliceRow,
} from "./slice-index";

const MIN_SLICE_PX = 1;
const FIRST_CAPACITY = 2048;
// Runs of merged slices are joined while they cover equally much.
const COVER_LEVELS = 6;

/** Growing columns of boxes of one row, reused by the next layout. */
export class SliceBoxes {
  count = 0;
  left = new Float64Array(FIRST_CAPACITY);
  width = new Float64Array(FIRST_CAPACITY);
  /** Row of the frame, or MERGED_ROW. */
  row = new Int32Array(FIRST_CAPACITY);
  /** A slice whose color the box has. */
  like = new Int32Array(FIRST_CAPACITY);
  /** 0–1: how much of its width is covered. */
  cover = new Float32Array(FIRST_CAPACITY);

  clear(): void {
    this.count = 0;
  }

  add(left: number, width: number, row: number, like: number, cover: number): void {
    if (this.count === this.row.length) this.#grow();
    this.left[this.count] = left;
    this.width[this.count] = width;
    this.row[this.count] = row;
    this.like[this.count] = like;
    this.cover[this.count] = cover;
    this.count += 1;
  }

  #grow(): void {
    this.left = doubled(this.left);
    this.width = doubled(this.width);
    this.row = doubled(this.row);
    this.like = doubled(this.like);
    this.cover = doubled(this.cover);
  }
}

/** Fills `into` with the boxes of a row; `colorOf` numbers the color of a slice, so that equal neighbors join. */
export function layoutSlices(
  index: SliceIndex,
  row: SliceRow,
  scale: Scale<Ns>,
  into: SliceBoxes,
  colorOf: (row: number) => number,
): void {
  into.clear();
  const { end } = scale.span;
  const leastNs = scale.lengthFromPx(px(MIN_SLICE_PX));
  let at = firstEnding(index, row, scale.span.start);
  while (at < row.last && (index.start[at] ?? 0) < end) {
    if (
      countIn(index, at, at + 1) > 1 &&
      (index.reach[at] ?? 0) - (index.start[at] ?? 0) > leastNs
    ) {
      addCoarse(index, at, scale, into);
      at += 1;
    } else if (durationAt(index, at) >= leastNs) {
      const left = scale.toPx(ns(index.start[at] ?? 0));
      const width = scale.lengthToPx(ns(durationAt(index, at)));
      into.add(left, width, index.row[at] ?? 0, index.row[at] ?? 0, 1);
      at += 1;
    } else {
      at = addMerged(index, row, at, scale, into, colorOf);
    }
  }
}

/** Adds slices that were merged for wider pixels than these: as long as they lie, and as high as they cover. */
function addCoarse(index: SliceIndex, at: number, scale: Scale<Ns>, into: SliceBoxes): void {
  const start = index.start[at] ?? 0;
  const length = (index.reach[at] ?? 0) - start;
  const left = scale.toPx(ns(start));
  const cover = durationAt(index, at) / length;
  into.add(left, scale.lengthToPx(ns(length)), MERGED_ROW, index.row[at] ?? 0, cover);
}

/** Merges the slices that begin in one pixel, and returns the position after them. */
function addMerged(
  index: SliceIndex,
  row: SliceRow,
  at: number,
  scale: Scale<Ns>,
  into: SliceBoxes,
  colorOf: (row: number) => number,
): number {
  const column = Math.floor(scale.toPx(ns(index.start[at] ?? 0)));
  const columnEnd = scale.fromPx(px(column + 1));
  let next = Math.max(at + 1, firstStarting(index, row, columnEnd, at));
  const pixel = scale.lengthFromPx(px(1));
  // Only the last one can be wide: the others end before the next begins.
  if (next - 1 > at && durationAt(index, next - 1) >= pixel * MIN_SLICE_PX) next -= 1;
  const covered = ((index.before[next] ?? 0) - (index.before[at] ?? 0)) / pixel;
  const level = Math.max(1, Math.ceil(Math.min(1, covered) * COVER_LEVELS)) / COVER_LEVELS;
  const like = index.row[at] ?? 0;
  const isOne = countIn(index, at, next) === 1;
  joinOrAdd(into, column, isOne ? like : MERGED_ROW, like, level, colorOf);
  return next;
}

function joinOrAdd(
  into: SliceBoxes,
  column: number,
  row: number,
  like: number,
  cover: number,
  colorOf: (row: number) => number,
): void {
  const last = into.count - 1;
  const touches =
    last >= 0 &&
    into.row[last] === MERGED_ROW &&
    (into.left[last] ?? 0) + (into.width[last] ?? 0) === column &&
    Math.abs((into.cover[last] ?? 0) - cover) < 1e-6 &&
    colorOf(into.like[last] ?? 0) === colorOf(like);
  if (touches) into.width[last] = (into.width[last] ?? 0) + 1;
  else into.add(column, 1, row, like, cover);
}

/** The row of the frame at a moment in a row of slices, within `slackNs`; -1 for none. */
export function sliceAt(index: SliceIndex, row: SliceRow, time: number, slackNs: number): number {
  const at = firstEnding(index, row, time - slackNs);
  if (at >= row.last || (index.start[at] ?? 0) > time + slackNs) return -1;
  return index.row[at] ?? -1;
}
