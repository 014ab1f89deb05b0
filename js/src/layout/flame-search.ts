/** The rows of a tree that match a search, and their share of the whole. */

import { keyOf, type TextColumn, wordsMatching } from "../wire/frame";
import type { FlameExtent, FlameTree } from "./flame-tree";

export interface FlameMatches {
  /** 1 for each dictionary key of the names that match. */
  readonly isMatch: Uint8Array;
  /** The matching rows, the heaviest first. */
  readonly rows: Int32Array;
  /** The weight of the outermost matching rows as a share of the root, 0–1. */
  readonly ratio: number;
}

/** Rows whose name contains `query`, or matches it between slashes; null for an empty query. */
export function searchFlame(
  tree: FlameTree,
  extent: FlameExtent,
  names: TextColumn,
  query: string,
): FlameMatches | null {
  const isMatch = wordsMatching(names, query);
  if (isMatch === null) return null;
  const { rows, total } = sumOutermost(tree, extent, names, isMatch);
  const whole = extent.total[0] ?? 0;
  return { isMatch, rows, ratio: whole > 0 ? total / whole : 0 };
}

/** Finds all matches; sums the weight of outermost ones only, or nested calls would count twice. */
function sumOutermost(
  tree: FlameTree,
  extent: FlameExtent,
  names: TextColumn,
  isMatch: Uint8Array,
): { readonly rows: Int32Array; readonly total: number } {
  const isInside = new Uint8Array(tree.rows);
  const { keys } = names;
  const { parent } = tree;
  const weights = extent.total;
  const found: number[] = [];
  let total = 0;
  for (let row = 0; row < tree.rows; row += 1) {
    const isInMatch = isInside[parent[row] ?? -1] === 1;
    const matches = isMatch[keys[row] ?? -1] === 1;
    if (!matches) {
      if (isInMatch) isInside[row] = 1;
      continue;
    }
    isInside[row] = 1;
    const weight = weights[row] ?? 0;
    if (weight <= 0) continue;
    found.push(row);
    if (!isInMatch) total += weight;
  }
  return { rows: heaviestFirst(found, weights), total };
}

// More matches are left in the order of the tree: nobody steps through them one by one.
const MOST_SORTED = 20_000;

function heaviestFirst(rows: readonly number[], weights: ArrayLike<number>): Int32Array {
  const found = Int32Array.from(rows);
  return found.length > MOST_SORTED
    ? found
    : found.sort((a, b) => (weights[b] ?? 0) - (weights[a] ?? 0) || a - b);
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

/** The first box below which the graph branches, or where the user's code begins: all above it only wrap it. */
export function firstInteresting(
  tree: FlameTree,
  extent: FlameExtent,
  isOwn: (row: number) => boolean,
): number {
  let at = 0;
  for (;;) {
    const first = heaviestIn(tree, extent, at);
    if (first < 0) return at;
    const whole = extent.total[at] ?? 0;
    if ((extent.total[first] ?? 0) < whole * PASSES_ON || isOwn(at)) return at;
    at = first;
  }
}

// A box that passes on this much to one other is a link of a chain.
const PASSES_ON = 0.98;

function heaviestIn(tree: FlameTree, extent: FlameExtent, row: number): number {
  let best = -1;
  let most = 0;
  for (let at = tree.childStart[row] ?? 0; at < (tree.childStart[row + 1] ?? 0); at += 1) {
    const child = tree.child[at] ?? 0;
    if ((extent.total[child] ?? 0) > most) {
      most = extent.total[child] ?? 0;
      best = child;
    }
  }
  return best;
}
