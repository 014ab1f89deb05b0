/** Lays out the visible boxes of a tree. The cost is proportional to pixels, not rows. */

import { type Boxes, MERGED_ROW } from "../base/boxes";
import { doubled } from "../base/columns";
import type { Scale } from "../base/scale";
import { firstWhere } from "../base/search";
import { px, type Weight, weight } from "../base/units";
import { endOf, type FlameExtent, type FlameTree, firstEndingAfter } from "./flame-tree";

// Below this a box cannot be seen or hit.
const MIN_BOX_PX = 0.5;
const FIRST_CAPACITY = 1024;

/** Growing columns of boxes, reused by the next layout. */
export class BoxBuffer implements Boxes {
  count = 0;
  left = new Float64Array(FIRST_CAPACITY);
  width = new Float64Array(FIRST_CAPACITY);
  row = new Int32Array(FIRST_CAPACITY);
  depthStart: number[] = [0];
  widthPx = px(0);

  clear(scale: Scale<Weight>): void {
    this.count = 0;
    this.depthStart = [0];
    this.widthPx = scale.width;
  }

  add(left: number, width: number, row: number): void {
    if (this.count === this.row.length) this.#grow();
    this.left[this.count] = left;
    this.width[this.count] = width;
    this.row[this.count] = row;
    this.count += 1;
  }

  #grow(): void {
    this.left = doubled(this.left);
    this.width = doubled(this.width);
    this.row = doubled(this.row);
  }
}

/** Fills `into` with the boxes that overlap the scale's window, depth by depth from row `top` on. */
export function layoutFlame(
  tree: FlameTree,
  extent: FlameExtent,
  scale: Scale<Weight>,
  into: BoxBuffer = new BoxBuffer(),
  top = 0,
): Boxes {
  into.clear(scale);
  if (tree.rows === 0 || endOf(extent, top) <= 0 || scale.width <= 0) return into;
  addBox(into, extent, scale, top);
  for (let first = 0; first < into.count; ) {
    const last = into.count;
    into.depthStart.push(last);
    for (let box = first; box < last; box += 1) {
      const row = into.row[box] ?? MERGED_ROW;
      if (row !== MERGED_ROW) addChildren(tree, extent, scale, row, into);
    }
    first = last;
  }
  return into;
}

function addBox(into: BoxBuffer, extent: FlameExtent, scale: Scale<Weight>, row: number): void {
  const left = scale.toPx(weight(extent.start[row] ?? 0));
  into.add(left, scale.lengthToPx(weight(extent.total[row] ?? 0)), row);
}

/** Adds the visible children of a row; runs of them under MIN_BOX_PX become one box. */
function addChildren(
  tree: FlameTree,
  extent: FlameExtent,
  scale: Scale<Weight>,
  row: number,
  into: BoxBuffer,
): void {
  const high = tree.childStart[row + 1] ?? 0;
  const least = scale.lengthFromPx(px(MIN_BOX_PX));
  let at = firstEndingAfter(tree, extent, tree.childStart[row] ?? 0, high, scale.span.start);
  while (at < high) {
    const child = tree.child[at] ?? 0;
    if ((extent.start[child] ?? 0) >= scale.span.end) return;
    if ((extent.total[child] ?? 0) >= least) {
      addBox(into, extent, scale, child);
      at += 1;
    } else {
      at = addRun(tree, extent, scale, at, high, into);
    }
  }
}

/** Merges narrow children from position `at` on and returns the first position behind them. */
function addRun(
  tree: FlameTree,
  extent: FlameExtent,
  scale: Scale<Weight>,
  at: number,
  high: number,
  into: BoxBuffer,
): number {
  const least = scale.lengthFromPx(px(MIN_BOX_PX));
  const start = extent.start[tree.child[at] ?? 0] ?? 0;
  let next = at;
  let end = start;
  while (next < high && end < scale.span.end) {
    if ((extent.total[tree.child[next] ?? 0] ?? 0) >= least) break;
    // All boxes that end within half a pixel are narrower than that, so they are skipped at once.
    next = Math.max(next + 1, firstEndingAfter(tree, extent, next, high, end + least));
    end = endOf(extent, tree.child[next - 1] ?? 0);
  }
  const width = scale.lengthToPx(weight(end - start));
  // A single invisible box is not drawn, because even a dot would be too large.
  if (width >= MIN_BOX_PX) into.add(scale.toPx(weight(start)), width, MERGED_ROW);
  return next;
}

/** The box at a pixel of a depth, -1 when there is none. */
export function boxAt(boxes: Boxes, depth: number, x: number): number {
  const first = boxes.depthStart[depth] ?? boxes.count;
  const last = boxes.depthStart[depth + 1] ?? boxes.count;
  const right = (box: number) => (boxes.left[box] ?? 0) + (boxes.width[box] ?? 0);
  const found = firstWhere(first, last, (box) => right(box) > x);
  return found < last && (boxes.left[found] ?? 0) <= x ? found : -1;
}

/** The number of depths with a box. */
export function depthsOf(boxes: Boxes): number {
  return Math.max(0, boxes.depthStart.length - 1);
}
