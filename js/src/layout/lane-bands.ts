/** Where the lanes of a timeline stand, from top to bottom. */

import type { SliceLane } from "../wire/header";
import { hasSlices, type SliceIndex } from "./slice-index";

export const ROW_PX = 20;
export const FOLDED_PX = 20;
const HEIGHTS = {
  steps: 0,
  thread: ROW_PX,
  calls: 14,
  host_waits: ROW_PX,
  waits: 34,
  stream: 30,
  annotations: ROW_PX,
  queue: 22,
  counters: FOLDED_PX,
  counter: 30,
} as const;
// Lanes that stand there also when nothing of them is in the window.
const LASTING: readonly SliceLane["kind"][] = ["waits", "counters"];
export const GAP_PX = 4;
const GROUP_GAP_PX = 10;

/** One lane in the picture. */
export interface LaneBand {
  readonly lane: number;
  readonly top: number;
  readonly height: number;
  /** The height of one level of nesting. */
  readonly rowPx: number;
  /** Folded to one line, by hand or because nothing of it is in the window. */
  readonly isFolded: boolean;
  readonly isEmpty: boolean;
  /** Whether another group begins here. */
  readonly isFirst: boolean;
  /** Kept at the lower edge of the window, over the lanes that scroll. */
  readonly isKept?: true;
}

export interface BandsInput {
  readonly lanes: readonly SliceLane[];
  readonly index: SliceIndex;
  /** The index of the whole recording, where `index` is that of a part: it says how deep lanes are. */
  readonly whole?: SliceIndex;
  readonly start: number;
  readonly end: number;
  /** Lanes that were folded or unfolded by hand. */
  readonly toggled: ReadonlySet<number>;
  /** Whether only threads are shown. */
  readonly isOnlyThreads?: boolean;
  /** Whether a lane has nothing in the window, where `index` does not say so yet. */
  readonly isEmpty?: (lane: number) => boolean;
}

/** The lanes that have slices; those without any in the window are one line. */
export function laneBands(input: BandsInput): readonly LaneBand[] {
  const { lanes, index, whole = index, toggled } = input;
  const isEmptyIn =
    input.isEmpty ?? ((lane: number) => !hasSlices(index, lane, input.start, input.end));
  const bands: LaneBand[] = [];
  let top = 4;
  let group = "";
  let isGroupFolded = false;
  lanes.forEach(({ kind, group: own, is_folded }, lane) => {
    const rows = whole.ofLane[lane] ?? [];
    if (kind === "steps" || (rows.length === 0 && !LASTING.includes(kind))) return;
    if (input.isOnlyThreads && kind !== "thread") return;
    if (kind === "counters") isGroupFolded = toggled.has(lane) !== is_folded;
    if (kind === "counter" && isGroupFolded) return;
    const isEmpty = !LASTING.includes(kind) && isEmptyIn(lane);
    // The parts of a thread or device that have nothing here are left out below its first line.
    if (isEmpty && kind === "calls") return;
    const isFirst = own !== group;
    group = own;
    if (isFirst && bands.length > 0) top += GROUP_GAP_PX;
    const isFolded = kind === "counters" ? isGroupFolded : toggled.has(lane) || isEmpty;
    const height = isFolded ? FOLDED_PX : heightOf(kind, rows.length);
    bands.push({ lane, top, height, rowPx: HEIGHTS[kind], isFolded, isEmpty, isFirst });
    top += height + GAP_PX;
  });
  return bands;
}

function heightOf(kind: SliceLane["kind"], levels: number): number {
  const isNested = kind === "thread" || kind === "annotations";
  return isNested ? HEIGHTS[kind] * Math.max(1, levels) : HEIGHTS[kind];
}

export function heightOfBands(bands: readonly LaneBand[]): number {
  const last = bands.at(-1);
  return last === undefined ? 0 : last.top + last.height + GAP_PX;
}

// Less room for the lanes that scroll says nothing.
const LEAST_ROOM_PX = 90;

/** The bands with that of a lane at the lower edge of the window, first in the list, where it would be below that. */
export function keepInSight(
  bands: readonly LaneBand[],
  lane: number,
  window: { readonly top: number; readonly height: number },
): readonly LaneBand[] {
  const band = bands.find((each) => each.lane === lane);
  if (band === undefined || window.height - band.height < LEAST_ROOM_PX) return bands;
  const top = window.top + window.height - band.height - GAP_PX;
  if (band.top <= top) return bands;
  return [{ ...band, top, isKept: true }, ...bands.filter((each) => each !== band)];
}

/** The band at a height of the picture; what is kept in sight is above the others. */
export function bandAt(bands: readonly LaneBand[], y: number): LaneBand | undefined {
  return bands.find(({ top, height }) => y >= top && y < top + height);
}
