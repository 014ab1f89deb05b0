/** The longest times without work on a device in a window. */

import { keptPer } from "../../base/kept";
import { firstWhere } from "../../base/search";
import { countAt, type Device, type Gap, type TimelineModel } from "./timeline-model";

/** How many are listed. */
export const MOST_GAPS = 3;

/** A gap with its longest wait, by its row in the frame. */
export interface LongGap {
  readonly gap: Gap;
  readonly row: number;
  /** The gap in the window, in ns. */
  readonly ns: number;
}

/** The gaps with the most time between `start` and `end`, the longest first; without waits that were merged. */
export const longestGaps = keptPer(
  (
    device: Device,
    model: TimelineModel,
    start: number,
    end: number,
    most: number,
  ): readonly LongGap[] => {
    const gaps = device.gaps();
    const found: LongGap[] = [];
    const first = firstWhere(0, gaps.length, (at) => (gaps[at]?.end ?? 0) > start);
    for (let at = first; at < gaps.length; at += 1) {
      const gap = gaps[at];
      if (gap === undefined || gap.start >= end) break;
      const ns = Math.min(gap.end, end) - Math.max(gap.start, start);
      if (found.length === most && ns <= (found.at(-1)?.ns ?? 0)) continue;
      if (gap.rows.some((row) => countAt(model, row) > 1)) continue;
      found.splice(
        firstWhere(0, found.length, (place) => (found[place]?.ns ?? 0) < ns),
        0,
        {
          gap,
          ns,
          row: longestIn(model, gap),
        },
      );
      if (found.length > most) found.pop();
    }
    return found;
  },
);

function longestIn({ dur }: TimelineModel, { rows }: Gap): number {
  return rows.reduce(
    (best, row) => ((dur[row] ?? 0) > (dur[best] ?? 0) ? row : best),
    rows[0] ?? -1,
  );
}

/** The first device that waits, if any does. */
export function waitingDevice({ devices }: TimelineModel): Device | undefined {
  return devices.find(({ waits }) => waits !== null);
}
