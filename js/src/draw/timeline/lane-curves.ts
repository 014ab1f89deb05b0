/** Paints lanes of values: the launch queue and counters, and the value under the pointer. */

import { measureText } from "../../base/measure";
import type { LaneBand } from "../../layout/lane-bands";
import { type CurveBrush, paintCounter, paintQueue, paintValue } from "./curves";
import { boxOfSlice } from "./outlines";
import { type Brush, restoreBoxFont } from "./scene";

export function paintCurve(brush: Brush, band: LaneBand, top: number): void {
  const { scene } = brush;
  const found = scene.curveOf(band.lane);
  const row = scene.index.ofLane[band.lane]?.[0];
  if (found === null || row === undefined) return;
  const { curve, highest } = found;
  const scale = scene.lanes[band.lane]?.scale;
  if (scale == null) paintQueue(curveBrush(brush), row, curve, highest, top, band.height);
  else paintCounter(curveBrush(brush), row, curve, scale, top, band.height);
  restoreBoxFont(brush);
}

function curveBrush({ context, scene, size }: Brush): CurveBrush {
  const { index, scale, gutter, colors } = scene;
  return { context, index, scale, gutter, width: size.width, colors };
}

/** The value of the counter under the pointer. */
export function paintHoveredValue(brush: Brush): void {
  const { scene } = brush;
  const box = boxOfSlice(scene, scene.hoveredSlice);
  const scale = scene.lanes[scene.placeOf(scene.hoveredSlice).lane]?.scale;
  if (box === null || scale == null) return;
  const text = measureText(scale, scene.levelOf(scene.hoveredSlice));
  paintValue(curveBrush(brush), text, box.left, box.top);
  restoreBoxFont(brush);
}
