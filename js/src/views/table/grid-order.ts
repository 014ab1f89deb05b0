/** The order of a column's rows. Row numbers are sorted; cells stay in their arrays. */

import { keptPer } from "../../base/kept";
import { firstWhere } from "../../base/search";
import { type Column, lowerWords, type TextColumn } from "../../wire/frame";

// Below every number that can occur.
const UNKNOWN_RANK = -Number.MAX_VALUE;

/**
 * All row numbers in order; the sort is stable, and unknown values are last in a descending sort. Changes are in the
 * order of their size, whatever their sign.
 */
export const orderedRows = keptPer(
  (column: Column, isDescending: boolean, isChange = false): Uint32Array => {
    const sign = isDescending ? -1 : 1;
    const ranks = Float64Array.from(ranksOf(column));
    for (let row = 0; row < ranks.length; row += 1) {
      const rank = ranks[row] ?? Number.NaN;
      const size = isChange ? Math.abs(rank) : rank;
      // NaN has no order, so it would break the sort of all other values.
      ranks[row] = (Number.isNaN(rank) ? UNKNOWN_RANK : size) * sign;
    }
    return rowsByRank(ranks);
  },
);

/** The same rows, with those of the rest behind all others. */
export function withRestLast(order: Uint32Array, rest: ArrayLike<number>): Uint32Array {
  if (rest.length === 0) return order;
  const named = order.filter((row) => rest[row] !== 1);
  const last = order.filter((row) => rest[row] === 1);
  const sorted = new Uint32Array(order.length);
  sorted.set(named);
  sorted.set(last, named.length);
  return sorted;
}

/** Numbers that order a column: its values, or the alphabetical places of its words. */
function ranksOf(column: Column): ArrayLike<number> {
  return column.kind === "text" ? wordRanks(column) : column.values;
}

/** Compares by code units: names of code need no collation, which takes three times as long. */
const wordRanks = keptPer((column: TextColumn): Int32Array => {
  const lower = lowerWords(column);
  // The sort without a function compares by code units, and takes half the time.
  const rankOf = new Map(lower.toSorted().map((word, rank) => [word, rank]));
  const rankByKey = Int32Array.from(lower, (word) => rankOf.get(word) ?? -1);
  return column.keys.map((key) => rankByKey[key] ?? -1);
});

/** Rows by ascending rank. The sort is native, without a callback per comparison. */
function rowsByRank(ranks: Float64Array): Uint32Array {
  const sorted = ranks.slice().sort();
  const rows = new Uint32Array(ranks.length);
  const taken = new Uint32Array(ranks.length);
  ranks.forEach((rank, row) => {
    const first = firstWhere(0, sorted.length, (at) => (sorted[at] ?? 0) >= rank);
    const before = taken[first] ?? 0;
    taken[first] = before + 1;
    rows[first + before] = row;
  });
  return rows;
}
