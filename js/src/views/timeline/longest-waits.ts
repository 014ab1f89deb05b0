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
  /** How much of the gap is in the window, in ns. */
  readonly ns: number;
  /** Whether the device waits for other causes, too. */
  readonly isMixed: boolean;
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
      return [{ ...span, ...mainWait(model, gap), ns: inside[at] ?? 0, isExact: gap.isExact }];
    });
  },
);

/** The longest wait of the cause that takes the most of a gap. */
function mainWait(model: TimelineModel, { rows }: Gap): { row: number; isMixed: boolean } {
  const durationOf = (row: number) => model.dur[row] ?? 0;
  const sums = new Map<string, number>();
  for (const row of rows) {
    const [cause] = noteParts(model, row);
    sums.set(cause, (sums.get(cause) ?? 0) + durationOf(row));
  }
  const most = Math.max(...sums.values());
  const isMain = (row: number) => sums.get(noteParts(model, row)[0]) === most;
  const [row = -1] = largestOf(rows.filter(isMain), 1, durationOf);
  return { row, isMixed: sums.size > 1 };
}

/** The first device that waits, if any does. */
export function waitingDevice({ devices }: TimelineModel): Device | undefined {
  return devices.find(({ waits }) => waits !== null);
}
