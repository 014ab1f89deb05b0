/** The order of a column's rows. Row numbers are sorted; cells stay in their arrays. */

import { firstWhere } from "../../base/search";
import type { Column, TextColumn } from "../../wire/frame";

// Below every number that can occur.
const UNKNOWN_RANK = -Number.MAX_VALUE;

/** All row numbers in order; the sort is stable, and unknown values are last in a descending sort. */
export function orderedRows(column: Column, isDescending: boolean): Uint32Array {
  const sign = isDescending ? -1 : 1;
  const ranks = Float64Array.from(ranksOf(column), (rank) =>
    // NaN has no order, so it would break the sort of all other values.
    Number.isNaN(rank) ? UNKNOWN_RANK * sign : rank * sign,
  );
  return rowsByRank(ranks);
}

/** Numbers that order a column: its values, or the alphabetical places of its words. */
function ranksOf(column: Column): ArrayLike<number> {
  return column.kind === "text" ? wordRanks(column) : column.values;
}

/** Compares by code units: names of code need no collation, which takes three times as long. */
function wordRanks({ keys, words }: TextColumn): Int32Array {
  const lower = words.map((word) => word.toLowerCase());
  const order = words.map((_, key) => key);
  order.sort((a, b) => ((lower[a] ?? "") < (lower[b] ?? "") ? -1 : 1));
  const rankByKey = new Int32Array(words.length);
  order.forEach((key, rank) => {
    rankByKey[key] = rank;
  });
  return keys.map((key) => rankByKey[key] ?? -1);
}

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
