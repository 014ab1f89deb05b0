/** Where the parts of a whole stand in a treemap. */

import { type HierarchyRectangularNode, treemapSquarify } from "d3-hierarchy";

export interface Tile {
  /** Which of the sizes it is. */
  readonly index: number;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

interface Leaf {
  readonly index: number;
  readonly value: number;
  // Written by the tiling.
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/** Tiles that fill a box, with areas in proportion to their sizes; sizes of 0 or less have none. */
export function tilesOf(
  sizes: readonly number[],
  width: number,
  height: number,
  gap = 0,
): readonly Tile[] {
  const leaves = sizes
    .flatMap((value, index) => (value > 0 ? [{ index, value, x0: 0, y0: 0, x1: 0, y1: 0 }] : []))
    .toSorted((a, b) => b.value - a.value);
  if (leaves.length === 0 || width <= 0 || height <= 0) return [];
  const whole = { value: leaves.reduce((sum, { value }) => sum + value, 0), children: leaves };
  const margin = gap / 2;
  // Only the tiling: a tree of one level needs neither d3's hierarchy nor its layout, which are 1 kB.
  const root = whole as unknown as HierarchyRectangularNode<unknown>;
  treemapSquarify(root, -margin, -margin, width + margin, height + margin);
  return leaves.map((leaf) => tileOf(leaf, margin));
}

/** A leaf without the margin around it. */
function tileOf({ index, x0, y0, x1, y1 }: Leaf, margin: number): Tile {
  const width = Math.max(0, x1 - x0 - 2 * margin);
  const height = Math.max(0, y1 - y0 - 2 * margin);
  return { index, left: (x0 + x1 - width) / 2, top: (y0 + y1 - height) / 2, width, height };
}
