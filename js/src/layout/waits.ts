/** Why a device waits, over time: long waits one by one, short ones summed up in stretches. */

import type { Scale } from "../base/scale";
import { firstWhere } from "../base/search";
import { type Ns, ns, px } from "../base/units";
import { Levels } from "./levels";
import { countIn, durationAt, type SliceIndex, type SliceRow } from "./slice-index";

// A wait that is at least as wide has a box of its own.
const WIDE_PX = 26;

/** The waits of one device: `cause` numbers what each slice of the row waits for. */
export interface Waits {
  readonly index: SliceIndex;
  readonly row: SliceRow;
  readonly causes: number;
  causeAt(position: number): number;
  /** Time of a cause before a position. */
  readonly sums: readonly Float64Array[];
  readonly longest: Levels;
  /** The time from the end of each wait to the next. */
  readonly between: Levels;
}

/** One wait, or a stretch of several with what they come to. */
export interface WaitBox {
  readonly left: number;
  readonly width: number;
  readonly ns: number;
  readonly count: number;
  /** The cause with the most time. */
  readonly cause: number;
  /** The slice of a single wait, or the first of a stretch: a row of the frame. */
  readonly row: number;
}

export interface CauseSum {
  readonly cause: number;
  readonly ns: number;
  readonly count: number;
}

/** The waits in a row of slices; `causeOf` gives the number of the cause of a row of the frame. */
export function buildWaits(
  index: SliceIndex,
  row: SliceRow,
  causes: number,
  causeOf: (row: number) => number,
): Waits {
  const size = row.last - row.first;
  const duration = new Float64Array(size);
  const between = new Float64Array(size);
  const sums = Array.from({ length: causes }, () => new Float64Array(size + 1));
  const causeAt = (position: number) => causeOf(index.row[position] ?? -1);
  for (let at = 0; at < size; at += 1) {
    const position = row.first + at;
    duration[at] = durationAt(index, position);
    const end = (index.start[position] ?? 0) + (duration[at] ?? 0);
    between[at] = at + 1 < size ? (index.start[position + 1] ?? 0) - end : 0;
    const cause = causeAt(position);
    sums.forEach((sum, each) => {
      sum[at + 1] = (sum[at] ?? 0) + (each === cause ? (duration[at] ?? 0) : 0);
    });
  }
  const levels = { longest: new Levels(duration), between: new Levels(between) };
  return { index, row, causes, causeAt, sums, ...levels };
}

/** The boxes of a window, from left to right. */
export function layoutWaits(waits: Waits, scale: Scale<Ns>): readonly WaitBox[] {
  const { index, row } = waits;
  const wideNs = scale.lengthFromPx(px(WIDE_PX));
  const boxes: WaitBox[] = [];
  const [first, last] = positionsIn(waits, scale.span.start, scale.span.end);
  for (let at = first; at < last; ) {
    if (durationAt(index, at) >= wideNs) {
      boxes.push(boxOf(waits, scale, at, at + 1));
      at += 1;
      continue;
    }
    const wide = row.first + waits.longest.nextAtLeast(at - row.first, wideNs);
    const apart = row.first + waits.between.nextAtLeast(at - row.first, wideNs) + 1;
    const next = Math.max(at + 1, Math.min(wide, apart, last));
    boxes.push(boxOf(waits, scale, at, next));
    at = next;
  }
  return boxes;
}

/** The positions of the waits that overlap a span. */
export function positionsIn({ index, row }: Waits, start: number, end: number): [number, number] {
  const first = firstWhere(row.first, row.last, (at) => (index.reach[at] ?? 0) > start);
  return [first, firstWhere(first, row.last, (at) => (index.start[at] ?? 0) >= end)];
}

function boxOf(waits: Waits, scale: Scale<Ns>, first: number, last: number): WaitBox {
  const { index } = waits;
  const start = index.start[first] ?? 0;
  const end = index.reach[last - 1] ?? 0;
  return {
    left: scale.toPx(ns(start)),
    width: scale.lengthToPx(ns(end - start)),
    ns: (index.before[last] ?? 0) - (index.before[first] ?? 0),
    count: countIn(index, first, last),
    cause: mostOf(waits, first, last),
    row: index.row[first] ?? -1,
  };
}

function mostOf(waits: Waits, first: number, last: number): number {
  let best = 0;
  let most = -1;
  waits.sums.forEach((sum, cause) => {
    const time = (sum[last - waits.row.first] ?? 0) - (sum[first - waits.row.first] ?? 0);
    if (time > most) {
      most = time;
      best = cause;
    }
  });
  return best;
}

/** What the waits in a span come to by cause, longest first; those that reach over its edges are cut. */
export function sumWaits(waits: Waits, start: number, end: number): readonly CauseSum[] {
  const [first, last] = positionsIn(waits, start, end);
  const time = new Float64Array(waits.causes);
  const count = new Uint32Array(waits.causes);
  for (let at = first; at < last; at += 1) {
    const cause = waits.causeAt(at);
    const from = Math.max(start, waits.index.start[at] ?? 0);
    const to = Math.min(end, (waits.index.start[at] ?? 0) + durationAt(waits.index, at));
    time[cause] = (time[cause] ?? 0) + Math.max(0, to - from);
    count[cause] = (count[cause] ?? 0) + countIn(waits.index, at, at + 1);
  }
  return Array.from(time, (sum, cause) => ({ cause, ns: sum, count: count[cause] ?? 0 }))
    .filter(({ ns: sum }) => sum > 0)
    .toSorted((a, b) => b.ns - a.ns);
}
