/** The values of counters, which travel as levels of a scale. */

import { formatMeasure } from "./format";

/** The level of the highest value. */
export const MOST_LEVEL = 2 ** 31 - 1;

export interface MeasureScale {
  readonly low: number;
  readonly high: number;
  /** As the file writes it; "" where it names none. */
  readonly unit: string;
  readonly least: number;
  readonly most: number;
}

/** "312.5 W" */
export function measureText({ low, high, unit }: MeasureScale, level: number): string {
  return formatMeasure(low + (level / MOST_LEVEL) * (high - low), unit);
}

/** "88.1 – 376 W": the least and the most, with the unit once where both have the same. */
export function measureRangeText({ least, most, unit }: MeasureScale): string {
  const [low, high] = [formatMeasure(least, unit), formatMeasure(most, unit)];
  const shared = high.slice(`${high} `.indexOf(" "));
  return low === high ? high : `${low.replace(shared, "")} – ${high}`;
}
