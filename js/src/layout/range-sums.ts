/** What runs in a range of time: the tables of ops and kernels for it. */

import {
  durationAt,
  firstEnding,
  firstStarting,
  type SliceIndex,
  type SliceRow,
} from "./slice-index";

/** Sums by a key, such as the dictionary key of a name. */
export interface RangeSum {
  readonly key: number;
  readonly count: number;
  readonly ns: number;
}

/** Calls `visit` with each slice of a row that overlaps a span, and how much of the span it takes. */
export function eachIn(
  index: SliceIndex,
  row: SliceRow,
  start: number,
  end: number,
  visit: (frameRow: number, ns: number, position: number) => void,
): void {
  const last = firstStarting(index, row, end);
  for (let at = firstEnding(index, row, start); at < last; at += 1) {
    const from = Math.max(start, index.start[at] ?? 0);
    const to = Math.min(end, (index.start[at] ?? 0) + durationAt(index, at));
    if (to > from || (to === from && durationAt(index, at) === 0))
      visit(index.row[at] ?? -1, to - from, at);
  }
}

/** The time of all slices of some rows in a span, by key; the largest first. Those of key -1 count as one. */
export function sumByKey(
  index: SliceIndex,
  rows: readonly SliceRow[],
  start: number,
  end: number,
  keyOf: (frameRow: number) => number,
): readonly RangeSum[] {
  const sums: Sums = new Map();
  for (const row of rows) {
    eachIn(index, row, start, end, (frameRow, time) => add(sums, keyOf(frameRow), time, 1));
  }
  return inOrder(sums);
}

/** The own time of slices in a span by key: what those one level deeper take is theirs. */
export function selfByKey(
  index: SliceIndex,
  lanes: readonly number[],
  start: number,
  end: number,
  keyOf: (frameRow: number) => number,
): readonly RangeSum[] {
  const sums: Sums = new Map();
  for (const lane of lanes) {
    const rows = index.ofLane[lane] ?? [];
    rows.forEach((row, depth) => {
      const above = rows[depth - 1];
      let around = above === undefined ? 0 : firstEnding(index, above, start);
      eachIn(index, row, start, end, (frameRow, time, position) => {
        add(sums, keyOf(frameRow), time, 1);
        if (above === undefined) return;
        const begin = index.start[position] ?? 0;
        while (around + 1 < above.last && (index.start[around + 1] ?? 0) <= begin) around += 1;
        add(sums, keyOf(index.row[around] ?? -1), -time, 0);
      });
    });
  }
  return inOrder(sums);
}

type Sums = Map<number, { count: number; ns: number }>;

function add(sums: Sums, key: number, time: number, count: number): void {
  const sum = sums.get(key) ?? { count: 0, ns: 0 };
  sum.count += count;
  sum.ns += time;
  sums.set(key, sum);
}

function inOrder(sums: Sums): readonly RangeSum[] {
  const found = Array.from(sums, ([key, sum]) => ({
    key,
    count: sum.count,
    ns: Math.max(0, sum.ns),
  }));
  return found.toSorted((a, b) => b.ns - a.ns || a.key - b.key);
}
