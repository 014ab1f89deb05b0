/** The points of a series that belong to one lane. */

import type { Unit } from "../base/format";
import { type Frame, keyOf, numbersOf, rowsOf, textOf } from "../wire/frame";
import type { SeriesHeader } from "../wire/header";

export interface LaneBand {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
  /** null where the value is unknown. */
  readonly values: readonly (number | null)[];
}

export interface LaneSeries {
  readonly time_ns: readonly number[];
  readonly bands: readonly LaneBand[];
  /** Bands that add up to the first of `bands`, from the bottom. */
  readonly stacked: readonly LaneBand[];
}

/** Lanes in the order in which they first appear. */
export function lanesOf(frame: Frame): readonly string[] {
  const lane = textOf(frame, "lane");
  const keys = new Set(lane.keys);
  return Array.from(keys, (key) => lane.words[key] ?? "");
}

/** Points of a lane, without bands that have no values. */
export function laneSeries(view: SeriesHeader, frame: Frame, lane: string): LaneSeries {
  const lanes = textOf(frame, "lane");
  const key = keyOf(lanes, lane);
  const rows = rowsOf(frame).filter((row) => lanes.keys[row] === key);
  const time = numbersOf(frame, "time_ns");
  const bandOf = ({ name, title, unit }: SeriesHeader["bands"][number]) => ({
    name,
    title,
    unit,
    values: pick(frame, name, rows),
  });
  return {
    time_ns: rows.map((row) => time[row] ?? 0),
    bands: view.bands.map(bandOf).filter(({ values }) => values.some((value) => value !== null)),
    stacked: view.stacked.map(bandOf).filter(({ values }) => values.some((value) => value)),
  };
}

/** The tops of bands that stand on each other, in their order. */
export function stackedTops(bands: readonly LaneBand[]): readonly (readonly number[])[] {
  let below: readonly number[] = [];
  return bands.map(({ values }) => {
    below = values.map((value, index) => (value ?? 0) + (below[index] ?? 0));
    return below;
  });
}

/** The top of the areas at a place. A line, such as what is reserved, is not a part of them. */
export function topOfAreas(
  bands: readonly { readonly fill: string; readonly values: readonly (number | null)[] }[],
  place: number,
): number {
  return Math.max(
    0,
    ...bands.map(({ fill, values }) => (fill === "none" ? 0 : (values[place] ?? 0))),
  );
}

/** The place of the last point up to a time; 0 before the first. */
export function placeOfTime(time_ns: readonly number[], time: number): number {
  let low = 0;
  let high = time_ns.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((time_ns[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

function pick(frame: Frame, name: string, rows: readonly number[]): readonly (number | null)[] {
  const column = frame.columns.get(name);
  if (column?.kind !== "number") return [];
  return rows.map((row) => {
    const value = column.values[row];
    return value === undefined || Number.isNaN(value) ? null : value;
  });
}

/**
 * The highest value in each of many equal slots of time. A value holds until the next; unknown values and slots before
 * the first are 0.
 */
export function highestBySlot(
  time: readonly number[],
  values: readonly (number | null)[],
  slots: number,
): Float64Array {
  const highest = new Float64Array(slots);
  const start = time[0] ?? 0;
  const length = Math.max(1, (time.at(-1) ?? 0) - start);
  const slotOf = (at: number) => Math.min(slots - 1, Math.floor(((at - start) / length) * slots));
  time.forEach((at, index) => {
    const value = values[index] ?? 0;
    const until = time[index + 1] ?? at;
    for (let slot = slotOf(at); slot <= slotOf(until); slot += 1) {
      highest[slot] = Math.max(highest[slot] ?? 0, value);
    }
  });
  return highest;
}
