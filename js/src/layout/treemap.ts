/** Where the parts of a whole stand in a treemap. */

import { hierarchy, treemap } from "d3-hierarchy";

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
  readonly size: number;
  readonly children?: readonly Leaf[];
}

/** Tiles that fill a box, with areas in proportion to their sizes; sizes of 0 or less have none. */
export function tilesOf(
  sizes: readonly number[],
  width: number,
  height: number,
  gap = 0,
): readonly Tile[] {
  const children = sizes.flatMap((size, index) => (size > 0 ? [{ index, size }] : []));
  if (children.length === 0 || width <= 0 || height <= 0) return [];
  const root = hierarchy<Leaf>({ index: -1, size: 0, children })
    .sum(({ size }) => size)
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const leaves = treemap<Leaf>().size([width, height]).paddingInner(gap)(root).leaves();
  return leaves.map(({ data, x0, x1, y0, y1 }) => ({
    index: data.index,
    left: x0,
    top: y0,
    width: x1 - x0,
    height: y1 - y0,
  }));
}
