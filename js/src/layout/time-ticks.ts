/** Round moments for the axis of a timeline. */

import { exactDecimals, grouped } from "../base/format";

const STEPS = [1, 2, 5];

/** The distance of ticks: a round number of ns of which at most `most` fit into a span. */
export function tickStep(lengthNs: number, most: number): number {
  const least = lengthNs / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = STEPS.find((each) => each * power >= least);
  return step === undefined ? 10 * power : step * power;
}

/** The moments from `start` to `end` that are whole steps after `origin`. */
export function ticksIn(
  start: number,
  end: number,
  origin: number,
  step: number,
): readonly number[] {
  const first = Math.ceil((start - origin) / step);
  const last = Math.floor((end - origin) / step);
  if (last - first > 1000) return [];
  return Array.from(
    { length: Math.max(0, last - first + 1) },
    (_, at) => origin + (first + at) * step,
  );
}

const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
] as const;

/** Writes ticks: one unit, and as many decimals as the step between them needs. */
export function tickLabel(step: number, largest: number): (time: number) => string {
  const wanted = UNITS.find(([, size]) => largest >= size) ?? UNITS[3];
  // A step of 5 µs near 40 ms reads better in ms than in µs.
  const [suffix, size] = wanted;
  const decimals = exactDecimals([step / size]);
  return (time) => `${grouped(time / size, decimals).replace("-", "−")} ${suffix}`;
}
