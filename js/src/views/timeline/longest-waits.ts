/** The longest gaps in the work of a device in a window, and what it waits for in most of each. */

import { keptPer } from "../../base/kept";
import { largestOf } from "../../base/largest";
import type { Span } from "../../base/scale";
import { firstWhere } from "../../base/search";
import { type Ns, ns } from "../../base/units";
import { type Device, type Gap, noteParts, type TimelineModel } from "./timeline-model";

/** How many are listed. */
export const MOST_WAITS = 3;

export interface LongWait extends Span<Ns> {
  /** The longest wait of the cause with the most time in the gap: a row of the frame. */
  readonly row: number;
  /** How much of the gap is in the window, in ns; and of that, how much its main cause takes, and how much `row`. */
  readonly ns: number;
  readonly causeNs: number;
  readonly rowNs: number;
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

/** The longest wait of the cause that takes the most of a gap, of its part in a window. */
function mainWait(
  model: TimelineModel,
  { rows }: Gap,
  start: number,
  end: number,
): Pick<LongWait, "row" | "causeNs" | "rowNs"> {
  const insideOf = (row: number) => {
    const from = model.start[row] ?? 0;
    const length = Math.min(from + (model.dur[row] ?? 0), end) - Math.max(from, start);
    return Math.max(length, 0);
  };
  const sums = causeSums(model, rows, insideOf);
  const causeNs = Math.max(...sums.values());
  const isMain = (row: number) => sums.get(noteParts(model, row)[0]) === causeNs;
  const [row = -1] = largestOf(rows.filter(isMain), 1, insideOf);
  return { row, causeNs, rowNs: insideOf(row) };
}

/** What some waits come to by their cause. */
export function causeSums(
  model: TimelineModel,
  rows: readonly number[],
  timeOf: (row: number) => number,
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const row of rows) {
    const [cause] = noteParts(model, row);
    sums.set(cause, (sums.get(cause) ?? 0) + timeOf(row));
  }
  return sums;
}

/** The first device that waits, if any does. */
export function waitingDevice({ devices }: TimelineModel): Device | undefined {
  return devices.find(({ waits }) => waits !== null);
}
