/** The rows of a tree that match a search, and their share of the whole. */

import { keyOf, type TextColumn, wordsWith } from "../wire/frame";
import type { FlameExtent, FlameTree } from "./flame-tree";

export interface FlameMatches {
  /** 1 for each dictionary key of the names that match. */
  readonly isMatch: Uint8Array;
  /** Matching rows. */
  readonly rows: number;
  /** The weight of the outermost matching rows as a share of the root, 0–1. */
  readonly ratio: number;
}

/** Rows whose name contains `query`, without regard to case; null for an empty query. */
export function searchFlame(
  tree: FlameTree,
  extent: FlameExtent,
  names: TextColumn,
  query: string,
): FlameMatches | null {
  const isMatch = wordsWith(names, query);
  if (isMatch === null) return null;
  const { rows, total } = sumOutermost(tree, extent, names, isMatch);
  const whole = extent.total[0] ?? 0;
  return { isMatch, rows, ratio: whole > 0 ? total / whole : 0 };
}

/** Counts all matches; sums the weight of outermost ones only, or nested calls would count twice. */
function sumOutermost(
  tree: FlameTree,
  extent: FlameExtent,
  names: TextColumn,
  isMatch: Uint8Array,
): { readonly rows: number; readonly total: number } {
  const isInside = new Uint8Array(tree.rows);
  let rows = 0;
  let total = 0;
  for (let row = 0; row < tree.rows; row += 1) {
    const isInMatch = isInside[tree.parent[row] ?? -1] === 1;
    const matches = isMatch[names.keys[row] ?? -1] === 1;
    isInside[row] = isInMatch || matches ? 1 : 0;
    if (matches) rows += 1;
    if (matches && !isInMatch) total += extent.total[row] ?? 0;
  }
  return { rows, total };
}

/** The heaviest row of a name, -1 when there is none. */
export function heaviestRow(extent: FlameExtent, names: TextColumn, name: string): number {
  const key = keyOf(names, name);
  if (key < 0) return -1;
  let best = -1;
  let most = -1;
  for (let row = 0; row < names.keys.length; row += 1) {
    const total = extent.total[row] ?? 0;
    if (names.keys[row] === key && total > most) {
      best = row;
      most = total;
    }
  }
  return best;
}
