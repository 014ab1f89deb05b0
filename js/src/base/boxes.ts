/** The result of the layout for the painter: columns with one entry per box instead of an object per box. */

import type { Px } from "./units";

/** Marks a box that stands for a run of boxes too narrow to see. */
export const MERGED_ROW = -1;

/** Boxes ordered by depth, then by x; valid until the next layout. */
export interface Boxes {
  readonly count: number;
  /** Left edge in CSS pixels; may lie outside the window. */
  readonly left: Float64Array;
  readonly width: Float64Array;
  /** Row of the tree, or MERGED_ROW. */
  readonly row: Int32Array;
  /** First box of each depth; one entry more than there are depths. */
  readonly depthStart: readonly number[];
  readonly widthPx: Px;
}
