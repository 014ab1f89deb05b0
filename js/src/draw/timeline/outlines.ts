/** Paints outlines around slices, and says where a slice is in the picture. */

import { cssColor, type Rgb } from "../../base/color";
import { ns } from "../../base/units";
import { yOfLevel } from "./curves";
import { AXIS_PX, type Brush, type TimelineScene } from "./scene";

const LINE_PX = 4;

/** Where a slice is in the picture; null when its lane or level is not shown. */
export function boxOfSlice(
  scene: TimelineScene,
  row: number,
): {
  readonly left: number;
  readonly width: number;
  readonly top: number;
  readonly height: number;
} | null {
  if (row < 0) return null;
  const { lane, depth } = scene.placeOf(row);
  const band = scene.bands.find((each) => each.lane === lane);
  if (band === undefined || depth < 0) return null;
  const { start, end } = scene.spanOf(row);
  const left = scene.gutter + scene.scale.toPx(start);
  const width = Math.max(2, scene.scale.lengthToPx(ns(end - start)));
  const top = band.top - scene.scrollTop + AXIS_PX;
  if (scene.lanes[lane]?.scale != null) {
    // Of a curve, the line.
    const y = yOfLevel(scene.levelOf(row), top, band.height);
    return { left, width, top: y - LINE_PX / 2, height: LINE_PX };
  }
  const isNested =
    !band.isFolded && ["thread", "annotations"].includes(scene.lanes[lane]?.kind ?? "");
  return {
    left,
    width,
    top: top + (isNested ? depth * band.rowPx : 0),
    height: isNested ? band.rowPx - 1 : band.height,
  };
}

export function outline(brush: Brush, row: number, color: Rgb, width: number): void {
  const box = boxOfSlice(brush.scene, row);
  if (box === null) return;
  const { context, size } = brush;
  context.strokeStyle = cssColor(color);
  context.lineWidth = width;
  const left = Math.max(-10, box.left);
  const right = Math.min(size.width + 10, box.left + box.width);
  if (right < left) return;
  context.strokeRect(left, box.top, Math.max(2, right - left), box.height);
}
