/** Paints the links of the selection: from launch calls to work, and from forward to backward ops. */

import { cssColor } from "../../base/color";
import { boxOfSlice } from "./outlines";
import type { Arrow, Brush } from "./scene";

const ARROW_PX = 5;

/** A curve from the end of the call to the start of the work, or from a forward op to its backward op. */
export function paintArrow(brush: Brush, { from, to }: Arrow): void {
  const { context, scene } = brush;
  const begin = boxOfSlice(scene, from);
  const end = boxOfSlice(scene, to);
  if (begin === null || end === null) return;
  const isDown = end.top > begin.top;
  const x1 = begin.left + Math.min(begin.width / 2, 6);
  const y1 = isDown ? begin.top + begin.height : begin.top;
  const x2 = end.left + Math.min(2, end.width / 2);
  const y2 = isDown ? end.top : end.top + end.height;
  context.strokeStyle = cssColor(scene.colors.accent);
  context.fillStyle = cssColor(scene.colors.accent);
  context.lineWidth = 1.5;
  context.beginPath();
  const bend = Math.max(14, Math.abs(y2 - y1) / 2) * (isDown ? 1 : -1);
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
  context.stroke();
  context.beginPath();
  const tip = isDown ? -ARROW_PX : ARROW_PX;
  context.moveTo(x2, y2);
  context.lineTo(x2 - ARROW_PX * 0.7, y2 + tip);
  context.lineTo(x2 + ARROW_PX * 0.7, y2 + tip);
  context.fill();
}
