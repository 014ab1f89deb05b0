/** Binary search for the place in an order where a condition begins to hold. */

/** The first position from `low` up to `high` that holds, `high` for none; all behind it must hold too. */
export function firstWhere(low: number, high: number, holds: (at: number) => boolean): number {
  let left = low;
  let right = high;
  while (left < right) {
    const middle = (left + right) >> 1;
    if (holds(middle)) right = middle;
    else left = middle + 1;
  }
  return left;
}
