/** The values of counters, which travel as levels of a scale. */

import { formatMeasure } from "./format";

/** The level of the highest value. */
export const MOST_LEVEL = 2 ** 31 - 1;

export interface MeasureScale {
  readonly low: number;
  readonly high: number;
  /** As the file writes it; "" where it names none. */
  readonly unit: string;
}

/** "312.5 W" */
export function measureText({ low, high, unit }: MeasureScale, level: number): string {
  return formatMeasure(low + (level / MOST_LEVEL) * (high - low), unit);
}

/** "88.1 – 376 W": the unit once where both values have the same. */
export function measureRangeText(scale: MeasureScale, least: number, most: number): string {
  const [low, high] = [measureText(scale, least), measureText(scale, most)];
  const unit = high.slice(`${high} `.indexOf(" "));
  if (low === high) return high;
  return `${low.endsWith(unit) ? low.slice(0, low.length - unit.length) : low} – ${high}`;
}
