/** The longest waits of a device in a window. */

import { keptPer } from "../../base/kept";
import { firstWhere } from "../../base/search";
import { durationAt } from "../../layout/slice-index";
import { positionsIn } from "../../layout/waits";
import { countAt, type Device, type TimelineModel } from "./timeline-model";

/** How many are listed. */
export const MOST_WAITS = 3;

export interface LongWait {
  /** Its row in the frame. */
  readonly row: number;
  /** How much of it is in the window, in ns. */
  readonly ns: number;
}

/** The waits with the most time between `start` and `end`, the longest first; without those that were merged. */
export const longestWaits = keptPer(
  (
    device: Device,
    model: TimelineModel,
    start: number,
    end: number,
    most: number,
  ): readonly LongWait[] => {
    const { waits } = device;
    if (waits === null) return [];
    const { index } = waits;
    const found: LongWait[] = [];
    const [first, last] = positionsIn(waits, start, end);
    for (let at = first; at < last; at += 1) {
      const begin = index.start[at] ?? 0;
      const ns = Math.min(begin + durationAt(index, at), end) - Math.max(begin, start);
      if (found.length === most && ns <= (found.at(-1)?.ns ?? 0)) continue;
      const row = index.row[at] ?? -1;
      if (countAt(model, row) > 1) continue;
      const place = firstWhere(0, found.length, (each) => (found[each]?.ns ?? 0) < ns);
      found.splice(place, 0, { row, ns });
      if (found.length > most) found.pop();
    }
    return found;
  },
);

/** The first device that waits, if any does. */
export function waitingDevice({ devices }: TimelineModel): Device | undefined {
  return devices.find(({ waits }) => waits !== null);
}
