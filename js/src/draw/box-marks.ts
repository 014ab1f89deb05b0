/** Marks on boxes: of the selected name, and of what a search finds. */

import { cssColor } from "../base/color";
import type { Colors } from "./colors";

const LINE_PX = 2;

/** Marks a box of the selected name. */
export function underline(
  context: CanvasRenderingContext2D,
  colors: Colors,
  left: number,
  top: number,
  width: number,
  height: number,
): void {
  context.fillStyle = cssColor(colors.text);
  context.fillRect(left, top + height - LINE_PX, width, LINE_PX);
}

/** Marks a box that a search finds. Nothing is dimmed: in a dark theme what is dimmed cannot be read. */
export function outlineMatch(
  context: CanvasRenderingContext2D,
  colors: Colors,
  left: number,
  top: number,
  width: number,
  height: number,
): void {
  context.strokeStyle = cssColor(colors.text);
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.75, top + 0.75, Math.max(0.5, width - 1.5), height - 1.5);
}
