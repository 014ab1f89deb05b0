/** Paints a timeline: the axis, the lanes, what devices wait for, and the links of the selection. */

import { cssColor } from "../../base/color";
import { GAP_PX, type LaneBand } from "../../layout/lane-bands";
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
import { paintDimmed } from "./path";
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
  const kept = scene.bands.find(({ isKept }) => isKept);
  for (const band of scene.bands) {
    if (band !== kept) paintBand(brush, band);
  }
  const edge = kept === undefined ? size.height : topOf(scene, kept) - GAP_PX;
  clipped(brush, AXIS_PX, edge - AXIS_PX, () => paintMarks(brush));
  if (kept !== undefined) paintKept(brush, kept, edge);
  paintAxis(brush);
}

function topOf({ scrollTop }: TimelineScene, band: LaneBand): number {
  return band.top - scrollTop + AXIS_PX;
}

function paintBand(brush: Brush, band: LaneBand): void {
  const top = topOf(brush.scene, band);
  if (top + band.height < AXIS_PX || top > brush.size.height) return;
  clipped(brush, top, band.height, () => {
    paintLane(brush, band, top);
    paintDimmed(brush, band, top);
  });
  paintLabel(brush, band, top);
}

/** What stands on several lanes. */
function paintMarks(brush: Brush): void {
  const { scene } = brush;
  paintRange(brush);
  for (const arrow of scene.arrows) paintArrow(brush, arrow);
  outline(brush, scene.hoveredSlice, scene.colors.text, 1);
  outline(brush, scene.currentMatch, scene.colors.accent, 2);
  outline(brush, scene.selectedSlice, scene.colors.background, 5);
  outline(brush, scene.selectedSlice, scene.colors.accent, 2.5);
  paintHoveredValue(brush);
}

/** A lane that stays at the lower edge, on a ground of its own: the others go on behind it. */
function paintKept(brush: Brush, band: LaneBand, edge: number): void {
  const { context, scene, size } = brush;
  context.fillStyle = cssColor(scene.colors.background);
  context.fillRect(0, edge, size.width, size.height - edge);
  context.fillStyle = cssColor(scene.colors.line);
  context.fillRect(0, edge, size.width, 1);
  paintBand(brush, band);
  const alone = { ...brush, scene: { ...scene, bands: [band] } };
  clipped(brush, edge, size.height - edge, () => paintMarks(alone));
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
