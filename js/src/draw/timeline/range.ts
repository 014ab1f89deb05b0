/** Paints the chosen range over the lanes, and how long it is on the axis. */

import { cssColor } from "../../base/color";
import { formatNs } from "../../base/format";
import { AXIS_PX, type Brush, LABEL_PX, STRIP_PX, xOf } from "./scene";

export function paintRange(brush: Brush): void {
  const { context, scene, size } = brush;
  if (scene.range === null) return;
  const left = xOf(brush, scene.range.start);
  const right = xOf(brush, scene.range.end);
  context.fillStyle = cssColor(scene.colors.accent);
  context.globalAlpha = 0.1;
  context.fillRect(left, AXIS_PX, right - left, size.height);
  context.globalAlpha = 1;
  context.fillRect(Math.round(left), AXIS_PX, 1, size.height);
  context.fillRect(Math.round(right), AXIS_PX, 1, size.height);
}

export function paintRangeLabel(brush: Brush): void {
  const { context, scene, size } = brush;
  if (scene.range === null) return;
  const text = formatNs(scene.range.end - scene.range.start);
  context.font = `600 ${LABEL_PX}px ${scene.colors.uiFont}`;
  const width = context.measureText(text).width + 14;
  const middle = (xOf(brush, scene.range.start) + xOf(brush, scene.range.end)) / 2;
  const left = Math.min(Math.max(middle - width / 2, scene.gutter), size.width - width);
  context.fillStyle = cssColor(scene.colors.accent);
  context.fillRect(left, 3, width, AXIS_PX - STRIP_PX - 5);
  context.fillStyle = cssColor(scene.colors.background);
  context.fillText(text, left + 7, (AXIS_PX - STRIP_PX) / 2);
}
