/** Where a key moves the selection: along a row of boxes, or to the row above or below. */

export type Direction = "previous" | "next" | "up" | "down";
