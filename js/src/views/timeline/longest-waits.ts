/** The longest gaps in the work of a device in a window, and what it waits for in most of each. */

import { keptPer } from "../../base/kept";
import { largestOf } from "../../base/largest";
import type { Span } from "../../base/scale";
import { firstWhere } from "../../base/search";
import { type Ns, ns } from "../../base/units";
import { wordAt } from "../../wire/frame";
import { type Device, type Gap, noteParts, type TimelineModel } from "./timeline-model";

/** How many are listed. */
export const MOST_WAITS = 3;

// From this share of a cause on its waits of one name stand for it.
const MOSTLY = 0.5;

export interface LongWait extends Span<Ns> {
  /** The longest wait of the cause with the most time in the gap: a row of the frame. */
  readonly row: number;
  /** How much of the gap is in the window, in ns; and of that, how much its main cause takes, and how much `row`. */
  readonly ns: number;
  readonly causeNs: number;
  readonly rowNs: number;
  /** Whether the waits with the name of `row` take most of what the cause does. */
  readonly isNamed: boolean;
  /** False where short waits are merged, so that an edge of the gap is known to a pixel only. */
  readonly isExact: boolean;
}

/** The gaps with the most time between `start` and `end`, the longest first. */
export const longestWaits = keptPer(
  (
    device: Device,
    model: TimelineModel,
    start: number,
    end: number,
    most: number,
  ): readonly LongWait[] => {
    const all = device.gaps();
    const gaps = all.slice(
      firstWhere(0, all.length, (at) => (all[at]?.end ?? 0) > start),
      firstWhere(0, all.length, (at) => (all[at]?.start ?? 0) >= end),
    );
    const inside = gaps.map((gap) => Math.min(gap.end, end) - Math.max(gap.start, start));
    return largestOf(inside.keys(), most, (at) => inside[at] ?? 0).flatMap((at) => {
      const gap = gaps[at];
      if (gap === undefined) return [];
      const span = { start: ns(gap.start), end: ns(gap.end) };
      const main = mainWait(model, gap, start, end);
      return [{ ...span, ...main, ns: inside[at] ?? 0, isExact: gap.isExact }];
    });
  },
);

/** The longest wait of the cause that takes the most of a gap, of its part in a window, and of what takes most of it. */
function mainWait(
  model: TimelineModel,
  { rows }: Gap,
  start: number,
  end: number,
): Pick<LongWait, "row" | "causeNs" | "rowNs" | "isNamed"> {
  const insideOf = (row: number) => {
    const from = model.start[row] ?? 0;
    const length = Math.min(from + (model.dur[row] ?? 0), end) - Math.max(from, start);
    return Math.max(length, 0);
  };
  const [ofCause, causeNs] = mostOf(rows, (row) => noteParts(model, row)[0], insideOf);
  const [named, nameNs] = mostOf(ofCause, (row) => wordAt(model.names, row), insideOf);
  const isNamed = nameNs >= MOSTLY * causeNs;
  const [row = -1] = largestOf(isNamed ? named : ofCause, 1, insideOf);
  return { row, causeNs, rowNs: insideOf(row), isNamed };
}

/** The rows of one word that have the most time together, and that time. */
function mostOf(
  rows: readonly number[],
  wordOf: (row: number) => string,
  timeOf: (row: number) => number,
): readonly [readonly number[], number] {
  const sums = sumsBy(rows, wordOf, timeOf);
  const most = Math.max(...sums.values());
  return [rows.filter((row) => sums.get(wordOf(row)) === most), most];
}

/** What some waits come to by their cause. */
export function causeSums(
  model: TimelineModel,
  rows: readonly number[],
  timeOf: (row: number) => number,
): ReadonlyMap<string, number> {
  return sumsBy(rows, (row) => noteParts(model, row)[0], timeOf);
}

function sumsBy(
  rows: readonly number[],
  wordOf: (row: number) => string,
  timeOf: (row: number) => number,
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(wordOf(row), (sums.get(wordOf(row)) ?? 0) + timeOf(row));
  return sums;
}

/** The first device that waits, if any does. */
export function waitingDevice({ devices }: TimelineModel): Device | undefined {
  return devices.find(({ waits }) => waits !== null);
}
