/** Positions in a flame graph, and the result of each navigation. */

import type { Direction } from "../base/direction";
import { type Span, zoomSpan } from "../base/scale";
import { type Weight, weight } from "../base/units";
import { childrenOf, endOf, type FlameExtent, type FlameTree } from "./flame-tree";

// The window is never shorter than this share of the graph.
const SHORTEST_RATIO = 1e-7;

/** The span of a row. */
export function spanOf(extent: FlameExtent, row: number): Span<Weight> {
  return { start: weight(extent.start[row] ?? 0), end: weight(endOf(extent, row)) };
}

/** `span` zoomed around `anchor` within the whole graph. */
export function zoomed(
  extent: FlameExtent,
  span: Span<Weight>,
  anchor: Weight,
  factor: number,
): Span<Weight> {
  const whole = spanOf(extent, 0);
  const shortest = weight((whole.end - whole.start) * SHORTEST_RATIO);
  return zoomSpan(span, anchor, factor, whole, shortest);
}

/** `row` or its nearest ancestor that contains the whole span. */
export function holderOf(
  tree: FlameTree,
  extent: FlameExtent,
  row: number,
  span: Span<Weight>,
): number {
  // Float sums differ in the last digits, so a window may be larger by that much.
  const slack = (span.end - span.start) * 1e-9;
  let at = row;
  while (at > 0) {
    const own = spanOf(extent, at);
    if (own.start <= span.start + slack && own.end >= span.end - slack) return at;
    at = tree.parent[at] ?? 0;
  }
  return 0;
}

/** The neighbor of `row`, or `row` itself if there is none. */
export function neighbour(
  tree: FlameTree,
  extent: FlameExtent,
  row: number,
  direction: Direction,
): number {
  const above = tree.parent[row] ?? -1;
  switch (direction) {
    case "up":
      return Math.max(0, above);
    case "down":
      return heaviestChild(tree, extent, row);
    default:
      return above < 0 ? row : sibling(tree, extent, row, above, direction === "next" ? 1 : -1);
  }
}

function heaviestChild(tree: FlameTree, extent: FlameExtent, row: number): number {
  let best = row;
  let most = 0;
  for (const child of childrenOf(tree, row)) {
    const total = extent.total[child] ?? 0;
    if (total > most) {
      best = child;
      most = total;
    }
  }
  return best;
}

function sibling(
  tree: FlameTree,
  extent: FlameExtent,
  row: number,
  above: number,
  step: number,
): number {
  const siblings = childrenOf(tree, above);
  for (let at = siblings.indexOf(row) + step; at >= 0 && at < siblings.length; at += step) {
    const candidate = siblings[at] ?? row;
    if ((extent.total[candidate] ?? 0) > 0) return candidate;
  }
  return row;
}
