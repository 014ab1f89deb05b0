/** The duration of each step and the phases it is made of. All bars share one scale. */

import { phases } from "../base/palette";
import { type Frame, numberAt, rowsOf } from "../wire/frame";

export interface StepPart {
  readonly phase: string;
  readonly dur_ns: number;
  /** Share of the scale, 0–1. */
  readonly ratio: number;
}

export interface StepBar {
  readonly number: number;
  readonly isComplete: boolean;
  readonly dur_ns: number;
  readonly parts: readonly StepPart[];
  /** Device busy time as a share of the scale; null when it was not recorded. */
  readonly deviceRatio: number | null;
  readonly device_ns: number;
}

/** One bar a row of the `steps` view; the longest step fills the scale. */
export function stepBars(frame: Frame): readonly StepBar[] {
  const rows = rowsOf(frame);
  const longest = Math.max(1, ...rows.map((row) => numberAt(frame, "dur_ns", row) || 0));
  return rows.map((row) => stepBar(frame, row, longest));
}

function stepBar(frame: Frame, row: number, longest: number): StepBar {
  const device = numberAt(frame, "device_busy_ns", row);
  const complete = numberAt(frame, "complete", row);
  return {
    number: numberAt(frame, "number", row),
    // A sender without the column has no cut steps.
    isComplete: Number.isNaN(complete) || complete !== 0,
    dur_ns: numberAt(frame, "dur_ns", row),
    parts: phases.map(({ name }) => stepPart(frame, row, name, longest)).filter(isThere),
    deviceRatio: Number.isNaN(device) ? null : device / longest,
    device_ns: device,
  };
}

function stepPart(frame: Frame, row: number, phase: string, longest: number): StepPart {
  const dur_ns = numberAt(frame, `${phase}_ns`, row) || 0;
  return { phase, dur_ns, ratio: dur_ns / longest };
}

function isThere(part: StepPart): boolean {
  return part.dur_ns > 0;
}

/** Phases that any bar has, in palette order. */
export function phasesIn(bars: readonly StepBar[]): readonly string[] {
  const seen = new Set(bars.flatMap((bar) => bar.parts.map((part) => part.phase)));
  return phases.map(({ name }) => name).filter((name) => seen.has(name));
}
