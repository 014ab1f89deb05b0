/** The scale that the steps of two runs share. */

import { tickStep, ticksIn } from "./time-ticks";

interface DotScale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** The distance between two ticks. */
  readonly step: number;
}

// Room beside the first and last dot, as a part of the scale.
const MARGIN = 0.06;
const MOST_TICKS = 5;

/** A scale around both ends with round ticks; a single value stands in the middle. */
export function dotScale(least: number, most: number): DotScale {
  const reach = (most - least || Math.abs(most) || 1) * (1 + 2 * MARGIN);
  const middle = (least + most) / 2;
  const low = Math.max(0, middle - reach / 2);
  const high = middle + reach / 2;
  const step = tickStep(high - low, MOST_TICKS);
  return { low, high, ticks: ticksIn(low, high, 0, step), step };
}
