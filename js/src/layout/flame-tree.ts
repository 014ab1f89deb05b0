/** A tree of rows that can be traversed from the root without visiting invisible rows. */

import { assert } from "../base/assert";
import { firstWhere } from "../base/search";
import type { Numbers } from "../wire/frame";

/** Children of every row, and how deep each row is. Rows are in preorder. */
export interface FlameTree {
  readonly rows: number;
  readonly parent: Numbers;
  readonly depth: Uint16Array;
  readonly deepest: number;
  /** Children of row r: `child[childStart[r]]` up to `child[childStart[r + 1] - 1]`, in wire order. */
  readonly childStart: Int32Array;
  readonly child: Int32Array;
}

/** Where every row begins under one weight, computed once. */
export interface FlameExtent {
  readonly start: Float64Array;
  readonly total: Numbers;
}

/** Builds the tree from a parent column. */
export function buildTree(parent: Numbers): FlameTree {
  const rows = parent.length;
  const depth = new Uint16Array(rows);
  const childStart = new Int32Array(rows + 1);
  for (let row = 0; row < rows; row += 1) {
    const above = parent[row] ?? -1;
    assert(above < row, `row ${row} stands before its parent`);
    if (above < 0) continue;
    depth[row] = (depth[above] ?? 0) + 1;
    childStart[above + 1] = (childStart[above + 1] ?? 0) + 1;
  }
  for (let row = 0; row < rows; row += 1) {
    childStart[row + 1] = (childStart[row + 1] ?? 0) + (childStart[row] ?? 0);
  }
  const deepest = depth.reduce((most, each) => Math.max(most, each), 0);
  return { rows, parent, depth, deepest, childStart, child: placeChildren(parent, childStart) };
}

function placeChildren(parent: Numbers, childStart: Int32Array): Int32Array {
  const child = new Int32Array(Math.max(0, parent.length - 1));
  const next = childStart.slice();
  for (let row = 1; row < parent.length; row += 1) {
    const above = parent[row] ?? -1;
    if (above < 0) continue;
    const slot = next[above] ?? 0;
    child[slot] = row;
    next[above] = slot + 1;
  }
  return child;
}

/** A row begins where its parent begins plus the totals of the siblings before it. */
export function buildExtent(tree: FlameTree, total: Numbers): FlameExtent {
  const start = new Float64Array(tree.rows);
  const next = new Float64Array(tree.rows);
  for (let row = 1; row < tree.rows; row += 1) {
    const above = tree.parent[row] ?? -1;
    if (above < 0) continue;
    const at = next[above] ?? 0;
    start[row] = at;
    next[row] = at;
    next[above] = at + Math.max(0, total[row] ?? 0);
  }
  return { start, total };
}

/** Where a row ends under one weight. */
export function endOf(extent: FlameExtent, row: number): number {
  return (extent.start[row] ?? 0) + Math.max(0, extent.total[row] ?? 0);
}

/** First position in `child[low..high)` whose box ends after `at`: boxes of one parent are in order. */
export function firstEndingAfter(
  tree: FlameTree,
  extent: FlameExtent,
  low: number,
  high: number,
  at: number,
): number {
  return firstWhere(low, high, (middle) => endOf(extent, tree.child[middle] ?? 0) > at);
}

/** Rows from the root down to `row`. */
export function pathTo(tree: FlameTree, row: number): readonly number[] {
  const path: number[] = [];
  for (let at = row; at >= 0; at = tree.parent[at] ?? -1) path.unshift(at);
  return path;
}

// A box with less of the whole says nothing of where the time goes.
const HOT_SHARE = 0.2;

/**
 * The rows from the root down to the largest of those that have a fifth of the whole, and in which no row has that.
 * `awaits` is the part of each row in which it only waits for another thread, whose boxes count in its place.
 */
export function hottestPath(
  tree: FlameTree,
  total: Numbers,
  awaits: Numbers | null = null,
): readonly number[] {
  const ran = (row: number) => (total[row] ?? 0) - (awaits?.[row] ?? 0);
  const isHot = (row: number) => ran(row) >= HOT_SHARE * ran(0);
  let best = 0;
  for (let row = 1; row < tree.parent.length; row += 1) {
    const isLarger = ran(row) > (best && ran(best));
    if (isLarger && isHot(row) && !childrenOf(tree, row).some(isHot)) best = row;
  }
  return pathTo(tree, best);
}

/** The rows directly below `row`. */
export function childrenOf(tree: FlameTree, row: number): Int32Array {
  return tree.child.subarray(tree.childStart[row] ?? 0, tree.childStart[row + 1] ?? 0);
}
