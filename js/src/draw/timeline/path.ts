/** Dims what is not on the critical path. */

import { cssColor } from "../../base/color";
import type { LaneBand } from "../../layout/lane-bands";
import { type Brush, xOf } from "./scene";

/** Covers a lane but for the times in which the path goes through it. */
export function paintDimmed(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene, size } = brush;
  const path = scene.pathOf(band.lane);
  if (path === null) return;
  context.fillStyle = cssColor(scene.colors.background);
  context.globalAlpha = 0.75;
  let left = scene.gutter;
  const cover = (until: number, next: number) => {
    if (until > left) context.fillRect(left, top, until - left, band.height);
    left = Math.max(left, next);
  };
  for (const { start, end } of path)
    cover(Math.min(xOf(brush, start), size.width), xOf(brush, end));
  cover(size.width, 0);
  context.globalAlpha = 1;
}
