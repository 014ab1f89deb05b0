/** The duration of each step and the phases it is made of. All bars share one scale. */

import { isWaiting } from "../base/palette";
import { type Frame, numberAt, rowsOf, stringAt } from "../wire/frame";
import type { BarsHeader } from "../wire/header";

export interface StepPart {
  readonly phase: string;
  readonly dur_ns: number;
  /** Share of the scale, 0–1. */
  readonly ratio: number;
}

export interface StepBar {
  /** Row of the table, by which the kernel knows the step. */
  readonly row: number;
  readonly number: number;
  readonly isComplete: boolean;
  /** Why it does not count in what is given per step; empty if it does. */
  readonly leftOut: string;
  readonly start_ns: number;
  readonly dur_ns: number;
  readonly parts: readonly StepPart[];
  /** Device busy time as a share of the scale; null when it was not recorded. */
  readonly deviceRatio: number | null;
  readonly device_ns: number;
  /** How many launches have no work in the file. */
  readonly lost: number;
}

/** One bar per row, from the columns in the header; the longest step fills the scale. */
export function stepBars(frame: Frame, bars: BarsHeader): readonly StepBar[] {
  const rows = rowsOf(frame);
  const longest = Math.max(1, ...rows.map((row) => numberAt(frame, bars.total, row) || 0));
  return rows.map((row) => stepBar(frame, bars, row, longest));
}

function stepBar(frame: Frame, bars: BarsHeader, row: number, longest: number): StepBar {
  const device = bars.line === null ? Number.NaN : numberAt(frame, bars.line, row);
  const times = new Map<string, number>();
  for (const [name, column] of Object.entries(bars.parts)) {
    // Sleeping and waiting is one part with blocking calls.
    const phase = isWaiting(name) ? "waiting" : name;
    times.set(phase, (times.get(phase) ?? 0) + (numberAt(frame, column, row) || 0));
  }
  const parts = Array.from(times, ([phase, dur_ns]) => {
    return { phase, dur_ns, ratio: dur_ns / longest };
  });
  return {
    row,
    number: numberAt(frame, bars.number, row),
    leftOut: stringAt(frame, bars.left_out, row),
    isComplete: numberAt(frame, bars.complete, row) !== 0,
    start_ns: numberAt(frame, bars.start, row),
    dur_ns: numberAt(frame, bars.total, row),
    parts: parts.filter((part) => part.dur_ns > 0),
    deviceRatio: Number.isNaN(device) ? null : device / longest,
    device_ns: device,
    lost: bars.lost === null ? 0 : numberAt(frame, bars.lost, row) || 0,
  };
}

// By how much a step that does not count can be longer than the others before it is cut.
const OUT_RATIO = 1.3;

/** What the scale has to reach: the longest step that counts; the others are cut where they are far longer. */
export function longestShown(bars: readonly StepBar[]): number {
  const longestOf = (some: readonly StepBar[]) => Math.max(0, ...some.map(({ dur_ns }) => dur_ns));
  const counted = longestOf(bars.filter(({ leftOut }) => leftOut === ""));
  const whole = longestOf(bars);
  return counted > 0 && whole > OUT_RATIO * counted ? counted : whole;
}

/** Round values for an axis from 0 to a bit more than `largest`. */
export function axisOf(largest: number, most = 4): readonly number[] {
  const least = Math.max(largest, 1e-9) / most;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= least) ?? 10) * power;
  const count = Math.ceil(largest / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, at) => at * step);
}

/** How many steps are in each of `bins` equal parts of the scale, from the shortest durations up. */
export function histogram(
  bars: readonly StepBar[],
  largest: number,
  bins: number,
): readonly number[] {
  const counts = new Array<number>(bins).fill(0);
  for (const { dur_ns } of bars) {
    const bin = Math.min(bins - 1, Math.floor((dur_ns / Math.max(1, largest)) * bins));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return counts;
}
