/** Step curves over time: a value holds for as long as its slice. */

import type { Scale } from "../base/scale";
import { type Ns, ns, px } from "../base/units";
import type { Numbers } from "../wire/frame";
import { Levels } from "./levels";
import {
  durationAt,
  firstEnding,
  firstStarting,
  type SliceIndex,
  type SliceRow,
} from "./slice-index";

/** The values of one row of slices, by their place in it. */
export interface Curve {
  readonly most: Levels;
  /** Of the values with their signs changed. */
  readonly negated: Levels;
}

/** A part of the picture: one value where it is wide enough, or all that begin in one pixel. */
export interface CurvePiece {
  readonly left: number;
  readonly width: number;
  readonly least: number;
  readonly most: number;
}

/** The curve of a row of slices; `values` are those of the rows of the frame. */
export function curveOf(index: SliceIndex, { first, last }: SliceRow, values: Numbers): Curve {
  const own = Float64Array.from(index.row.subarray(first, last), (each) => values[each] ?? 0);
  return { most: new Levels(own), negated: new Levels(own.map((value) => -value)) };
}

/** The least and the most of a curve between two places. */
export function rangeOf(
  { most, negated }: Curve,
  from: number,
  to: number,
): { readonly least: number; readonly most: number } {
  return { least: -negated.largestIn(from, to), most: most.largestIn(from, to) };
}

/** The pieces of a curve in a window, from left to right: as many as pixels at most. */
export function layoutCurve(
  index: SliceIndex,
  row: SliceRow,
  scale: Scale<Ns>,
  curve: Curve,
): readonly CurvePiece[] {
  const pieces: CurvePiece[] = [];
  let at = firstEnding(index, row, scale.span.start);
  while (at < row.last && (index.start[at] ?? 0) < scale.span.end) {
    const left = scale.toPx(ns(index.start[at] ?? 0));
    let next = at + 1;
    let width: number = scale.lengthToPx(ns(durationAt(index, at)));
    if (width < 1) {
      const edge = scale.fromPx(px(Math.floor(left) + 1));
      next = Math.max(next, firstStarting(index, row, edge, at));
      width = 1;
    }
    pieces.push({ left, width, ...rangeOf(curve, at - row.first, next - row.first) });
    at = next;
  }
  return pieces;
}

/** The range of a curve in a window; null where nothing of it is in there. */
export function rangeIn(
  index: SliceIndex,
  row: SliceRow,
  { start, end }: { readonly start: number; readonly end: number },
  curve: Curve,
): { readonly least: number; readonly most: number } | null {
  const first = firstEnding(index, row, start);
  const last = firstStarting(index, row, end, first);
  return last <= first ? null : rangeOf(curve, first - row.first, last - row.first);
}
