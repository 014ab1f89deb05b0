/** Paints a timeline: the axis, the lanes, what devices wait for, and the links of the selection. */

import { SliceBoxes } from "../../layout/slice-layout";
import type { CanvasSize } from "../canvas-view";
import type { FillTable } from "../fills";
import type { TextCache } from "../text-cache";
import { paintArrow } from "./arrows";
import { paintAxis, paintGrid } from "./axis";
import { paintHoveredValue } from "./lane-curves";
import { paintLabel } from "./lane-labels";
import { paintLane } from "./lanes";
import { outline } from "./outlines";
import { paintRange } from "./range";
import { AXIS_PX, type Brush, TEXT_PX, type TimelineScene } from "./scene";

const scratch = new SliceBoxes();

/** Paints the whole picture. */
export function paintTimeline(
  context: CanvasRenderingContext2D,
  size: CanvasSize,
  scene: TimelineScene,
  texts: TextCache,
  fills: FillTable,
): void {
  const brush: Brush = { context, scene, size, texts, fills, boxes: scratch };
  texts.use(context, `${TEXT_PX}px ${scene.colors.codeFont}`);
  context.textBaseline = "middle";
  paintGrid(brush);
  for (const band of scene.bands) {
    const top = band.top - scene.scrollTop + AXIS_PX;
    if (top + band.height < AXIS_PX || top > size.height) continue;
    clipped(brush, top, band.height, () => paintLane(brush, band, top));
    paintLabel(brush, band, top);
  }
  clipped(brush, AXIS_PX, size.height, () => {
    paintRange(brush);
    for (const arrow of scene.arrows) paintArrow(brush, arrow);
    outline(brush, scene.hoveredSlice, scene.colors.text, 1);
    outline(brush, scene.currentMatch, scene.colors.accent, 2);
    outline(brush, scene.selectedSlice, scene.colors.background, 5);
    outline(brush, scene.selectedSlice, scene.colors.accent, 2.5);
    paintHoveredValue(brush);
  });
  paintAxis(brush);
}

/** Draws only right of the labels. */
function clipped(brush: Brush, top: number, height: number, draw: () => void): void {
  const { context, scene, size } = brush;
  context.save();
  context.beginPath();
  context.rect(scene.gutter, Math.max(AXIS_PX, top), size.width - scene.gutter, height);
  context.clip();
  draw();
  context.restore();
}
