/** Paints the axis: its ticks and the lines under them, and the phases of the steps. */

import { cssColor, mix } from "../../base/color";
import { paintPhases } from "./phases";
import { paintRangeLabel } from "./range";
import { AXIS_PX, type Brush, LABEL_PX, STRIP_PX, xOf } from "./scene";

/** The lines under the ticks, and at the edges of steps. */
export function paintGrid(brush: Brush): void {
  const { context, scene, size } = brush;
  context.fillStyle = cssColor(scene.colors.line);
  for (const tick of scene.ticks) {
    const x = Math.round(xOf(brush, tick));
    if (x >= scene.gutter) context.fillRect(x, AXIS_PX, 1, size.height);
  }
  context.fillStyle = cssColor(mix(scene.colors.line, scene.colors.muted, 0.5));
  for (const edge of scene.stepEdges) {
    const x = Math.round(xOf(brush, edge));
    if (x > scene.gutter && x < size.width) context.fillRect(x, AXIS_PX - 4, 1, size.height);
  }
}

export function paintAxis(brush: Brush): void {
  const { context, scene, size } = brush;
  const { colors } = scene;
  context.fillStyle = cssColor(colors.background);
  context.fillRect(0, 0, size.width, AXIS_PX - STRIP_PX);
  context.font = `${LABEL_PX}px ${colors.uiFont}`;
  context.fillStyle = cssColor(colors.muted);
  context.textAlign = "left";
  let free = scene.gutter;
  for (const tick of scene.ticks) {
    const x = xOf(brush, tick);
    const text = scene.tickText(tick - scene.origin);
    const width = context.measureText(text).width;
    if (x < free || x + width > size.width) continue;
    context.fillText(text, x + 3, (AXIS_PX - STRIP_PX) / 2);
    free = x + width + 12;
  }
  paintStrip(brush);
  paintRangeLabel(brush);
}

/** The phases of the steps, as a thin strip under the axis. */
function paintStrip({ context, scene, size, fills }: Brush): void {
  const { base: index, stepPhases: row, scale, gutter } = scene;
  if (row === null) return;
  context.save();
  context.beginPath();
  context.rect(gutter, 0, size.width, AXIS_PX);
  context.clip();
  const corner = [gutter, AXIS_PX - STRIP_PX - 1] as const;
  paintPhases(context, { index, row, fills }, scale, corner, STRIP_PX);
  context.restore();
}
