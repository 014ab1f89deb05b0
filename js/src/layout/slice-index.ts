/** Slices by lane and depth, in order of time, with the sums that make a picture cost pixels instead of slices. */

import { firstWhere } from "../base/search";
import type { Numbers } from "../wire/frame";

/** The slices of one lane and depth: positions `first` to `last` of the index. */
export interface SliceRow {
  readonly lane: number;
  readonly depth: number;
  readonly first: number;
  readonly last: number;
}

/** Columns by position. Slices of one row stand together, in order of their starts. */
export interface SliceIndex {
  /** Row of the frame. */
  readonly row: Int32Array;
  readonly start: Float64Array;
  /** The latest end so far in its row: overlapping slices end out of order. */
  readonly reach: Float64Array;
  /** Sum of the durations before the position, over all rows. */
  readonly before: Float64Array;
  /** How many slices are before the position; null where each position is one. */
  readonly counted: Float64Array | null;
  readonly rows: readonly SliceRow[];
  /** The rows of each lane, by depth. */
  readonly ofLane: readonly (readonly SliceRow[])[];
}

export interface SliceColumns {
  readonly lane: Numbers;
  readonly depth: Numbers;
  readonly start_ns: Numbers;
  readonly dur_ns: Numbers;
  /** How many slices each row stands for; absent where each is one. */
  readonly merged?: Numbers | null;
}

/** The index of all slices with a depth of 0 or more; the frame is sorted by lane and start. */
export function buildSliceIndex(columns: SliceColumns, lanes: number): SliceIndex {
  const depths = deepest(columns.depth) + 1;
  const counts = new Int32Array(lanes * depths + 1);
  const { lane, depth } = columns;
  let size = 0;
  for (let row = 0; row < lane.length; row += 1) {
    const at = depth[row] ?? -1;
    if (at < 0) continue;
    const key = (lane[row] ?? 0) * depths + at + 1;
    counts[key] = (counts[key] ?? 0) + 1;
    size += 1;
  }
  const rows: SliceRow[] = [];
  const ofLane: SliceRow[][] = Array.from({ length: lanes }, () => []);
  for (let key = 1; key < counts.length; key += 1) {
    const first = counts[key - 1] ?? 0;
    const last = first + (counts[key] ?? 0);
    counts[key] = last;
    if (last === first) continue;
    const made = { lane: Math.floor((key - 1) / depths), depth: (key - 1) % depths, first, last };
    rows.push(made);
    ofLane[made.lane]?.push(made);
  }
  return { ...placed(columns, depths, counts, size), rows, ofLane };
}

function deepest(depth: Numbers): number {
  let most = 0;
  for (const value of depth) if (value > most) most = value;
  return most;
}

/** Puts every slice to its position; `next` is the first free position of each row, one entry ahead. */
function placed(columns: SliceColumns, depths: number, next: Int32Array, size: number) {
  const { lane, depth, start_ns, dur_ns } = columns;
  const row = new Int32Array(size);
  const start = new Float64Array(size);
  const reach = new Float64Array(size);
  const before = new Float64Array(size + 1);
  const dur = new Float64Array(size);
  const firsts = next.slice();
  for (let each = 0; each < lane.length; each += 1) {
    const at = depth[each] ?? -1;
    if (at < 0) continue;
    const key = (lane[each] ?? 0) * depths + at;
    const position = next[key] ?? 0;
    next[key] = position + 1;
    row[position] = each;
    start[position] = start_ns[each] ?? 0;
    dur[position] = dur_ns[each] ?? 0;
    const end = (start_ns[each] ?? 0) + (dur_ns[each] ?? 0);
    const isFirst = position === firsts[key];
    reach[position] = isFirst ? end : Math.max(end, reach[position - 1] ?? 0);
  }
  for (let position = 0; position < size; position += 1) {
    before[position + 1] = (before[position] ?? 0) + (dur[position] ?? 0);
  }
  return { row, start, reach, before, counted: countedIn(row, columns.merged ?? null) };
}

function countedIn(row: Int32Array, merged: Numbers | null): Float64Array | null {
  if (merged === null) return null;
  const counted = new Float64Array(row.length + 1);
  row.forEach((each, position) => {
    counted[position + 1] = (counted[position] ?? 0) + (merged[each] ?? 1);
  });
  return counted;
}

/** How many slices are at some positions, `first` to before `last`. */
export function countIn({ counted }: SliceIndex, first: number, last: number): number {
  return counted === null ? last - first : (counted[last] ?? 0) - (counted[first] ?? 0);
}

/** The first position of a row whose slice, or one before it, ends after `time`. */
export function firstEnding(index: SliceIndex, row: SliceRow, time: number): number {
  return firstWhere(row.first, row.last, (at) => (index.reach[at] ?? 0) > time);
}

/** The first position from `from` on whose slice starts at `time` or later. Near answers are found fast. */
export function firstStarting(
  index: SliceIndex,
  row: SliceRow,
  time: number,
  from = row.first,
): number {
  let low = from;
  let step = 1;
  while (low + step < row.last && (index.start[low + step] ?? 0) < time) {
    low += step;
    step *= 2;
  }
  const high = Math.min(low + step, row.last);
  return firstWhere(low, high, (at) => (index.start[at] ?? 0) >= time);
}

/** Whether a lane has a slice in a span of time. */
export function hasSlices(index: SliceIndex, lane: number, start: number, end: number): boolean {
  return (index.ofLane[lane] ?? []).some((row) => {
    const at = firstEnding(index, row, start);
    return at < row.last && (index.start[at] ?? 0) < end;
  });
}

/** The duration of slice at a position. */
export function durationAt(index: SliceIndex, position: number): number {
  return (index.before[position + 1] ?? 0) - (index.before[position] ?? 0);
}

/** How much of a span the slices of a row that do not overlap cover. */
export function coveredIn(index: SliceIndex, row: SliceRow, start: number, end: number): number {
  const first = firstEnding(index, row, start);
  const last = firstStarting(index, row, end, first);
  if (last <= first) return 0;
  const whole = (index.before[last] ?? 0) - (index.before[first] ?? 0);
  const head = Math.max(0, start - (index.start[first] ?? 0));
  const tail = Math.max(0, (index.start[last - 1] ?? 0) + durationAt(index, last - 1) - end);
  return Math.max(0, whole - head - tail);
}
