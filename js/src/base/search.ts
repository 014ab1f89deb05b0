/** Binary search for the first position at which a condition holds. */

/** The first position in `low..high` that holds, or `high`; all later ones must hold as well. */
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
