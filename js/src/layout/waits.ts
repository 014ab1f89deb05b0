/** Why a device waits, over time: long waits one by one, short ones summed up in stretches. */

import type { Scale } from "../base/scale";
import { firstWhere } from "../base/search";
import { type Ns, ns, px } from "../base/units";
import { Levels } from "./levels";
import { countIn, coveredIn, durationAt, type SliceIndex, type SliceRow } from "./slice-index";

// A wait that is at least as wide has a box of its own.
const WIDE_PX = 26;
/** Where less of a time is waiting, its causes say little about it. */
export const HARDLY_IDLE = 0.1;

/** The waits of one device: `cause` numbers what each slice of the row waits for. */
export interface Waits {
  readonly index: SliceIndex;
  readonly row: SliceRow;
  readonly causes: number;
  causeAt(position: number): number;
  /** Time of a cause before a position, and in how many gaps it begins. */
  readonly sums: readonly Float64Array[];
  readonly counts: readonly Float64Array[];
  /** How many gaps begin before a position. */
  readonly gaps: Float64Array;
  readonly longest: Levels;
  /** The time from the end of each wait to the next. */
  readonly between: Levels;
}

/** One wait, or a stretch of several with what they come to. */
export interface WaitBox {
  readonly left: number;
  readonly width: number;
  readonly ns: number;
  /** How many waits. */
  readonly count: number;
  /** In how many gaps its waits are; those of a gap can be in several boxes. */
  readonly gaps: number;
  /** The cause with the most time. */
  readonly cause: number;
  /** The slice of a single wait, or the first of a stretch: a row of the frame. */
  readonly row: number;
}

export interface CauseSum {
  readonly cause: number;
  readonly ns: number;
  /** In how many gaps it is. */
  readonly count: number;
}

/** How many gaps begin in a slice, and in how many its cause does, as Python counted them. */
export interface GapCount {
  readonly gaps: number;
  readonly ofCause: number;
}

/** The waits in a row of slices; `causeOf` gives the number of the cause of a row of the frame, `gapsOf` its gaps. */
export function buildWaits(
  index: SliceIndex,
  row: SliceRow,
  causes: number,
  causeOf: (row: number) => number,
  gapsOf: (row: number) => GapCount,
): Waits {
  const size = row.last - row.first;
  const duration = new Float64Array(size);
  const between = new Float64Array(size);
  const sums = Array.from({ length: causes }, () => new Float64Array(size + 1));
  const counts = sums.map(() => new Float64Array(size + 1));
  const gaps = new Float64Array(size + 1);
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
    const begun = gapsOf(index.row[position] ?? -1);
    gaps[at + 1] = (gaps[at] ?? 0) + begun.gaps;
    counts.forEach((count, each) => {
      count[at + 1] = (count[at] ?? 0) + (each === cause ? begun.ofCause : 0);
    });
  }
  const levels = { longest: new Levels(duration), between: new Levels(between) };
  return { index, row, causes, causeAt, sums, counts, gaps, ...levels };
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
    gaps: gapsBetween(waits, first, last),
    cause: mostOf(waits, first, last),
    row: index.row[first] ?? -1,
  };
}

function difference(before: Float64Array, first: number, last: number): number {
  return (before[last] ?? 0) - (before[first] ?? 0);
}

function mostOf(waits: Waits, first: number, last: number): number {
  let best = 0;
  let most = -1;
  waits.sums.forEach((sum, cause) => {
    const time = difference(sum, first - waits.row.first, last - waits.row.first);
    if (time > most) {
      most = time;
      best = cause;
    }
  });
  return best;
}

/** What the waits in a span come to by cause, longest first; those that reach over its edges are cut. */
export function sumWaits(waits: Waits, start: number, end: number): readonly CauseSum[] {
  const { index, row } = waits;
  const [first, last] = positionsIn(waits, start, end);
  if (last <= first) return [];
  const before = Math.max(0, start - (index.start[first] ?? 0));
  const after = Math.max(0, (index.start[last - 1] ?? 0) + durationAt(index, last - 1) - end);
  // Waits do not overlap, so that only the first and the last reach over the edges.
  const cut = (cause: number) =>
    (cause === waits.causeAt(first) ? before : 0) + (cause === waits.causeAt(last - 1) ? after : 0);
  const between = (sums: Float64Array) => difference(sums, first - row.first, last - row.first);
  const open = openCauses(waits, first, last);
  return waits.sums
    .map((sum, cause) => ({
      cause,
      ns: between(sum) - cut(cause),
      count: between(waits.counts[cause] ?? new Float64Array(0)) + (open.has(cause) ? 1 : 0),
    }))
    .filter(({ ns: time }) => time > 0)
    .toSorted((a, b) => b.ns - a.ns);
}

/**
 * Which part of a span a device is busy, of the time in which it is known to work or to wait: what lies before the
 * first op of the recording, `knownFrom`, or after its last work, is neither.
 */
export function busyRatio(
  base: SliceIndex,
  busy: SliceRow | null,
  waits: Waits | null,
  knownFrom: number,
  start: number,
  end: number,
): number {
  const from = Math.max(start, knownFrom);
  const busyNs = busy === null ? 0 : coveredIn(base, busy, from, end);
  const waitsNs = waits === null ? 0 : coveredIn(waits.index, waits.row, from, end);
  return busyNs / Math.max(1, busyNs + waitsNs);
}

/** In how many gaps the waits in a span are. */
export function gapsIn(waits: Waits, start: number, end: number): number {
  return gapsBetween(waits, ...positionsIn(waits, start, end));
}

function gapsBetween({ gaps, row }: Waits, first: number, last: number): number {
  if (last <= first) return 0;
  const begun = difference(gaps, first - row.first, last - row.first);
  return begun + (difference(gaps, first - row.first, first - row.first + 1) === 0 ? 1 : 0);
}

/** The causes of a gap that begin before a position and go on at or after it. */
function openCauses(waits: Waits, first: number, last: number): ReadonlySet<number> {
  const { counts, gaps, row } = waits;
  const begun = new Set<number>();
  const open = new Set<number>();
  for (let position = first; position < last; position += 1) {
    const at = position - row.first;
    if (difference(gaps, at, at + 1) > 0) break;
    const cause = waits.causeAt(position);
    if (difference(counts[cause] ?? gaps, at, at + 1) > 0) begun.add(cause);
    else if (!begun.has(cause)) open.add(cause);
  }
  return open;
}
