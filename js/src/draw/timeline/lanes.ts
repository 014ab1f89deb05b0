/** Paints the lanes, each by its kind. */

import { cssColor, mix } from "../../base/color";
import type { LaneBand } from "../../layout/lane-bands";
import { firstStarting, type SliceRow } from "../../layout/slice-index";
import { paintCurve } from "./lane-curves";
import {
  type Brush,
  fitted,
  LABEL_PX,
  restoreBoxFont,
  TEXT_PAD_PX,
  type TimelineScene,
} from "./scene";
import { paintSlices } from "./slices";
import { paintWaits } from "./waits";

export function paintLane(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  const kind = scene.lanes[band.lane]?.kind;
  if (kind === "counters" || (band.isFolded && kind !== "counter")) {
    paintFolded(brush, band, top);
    return;
  }
  switch (kind) {
    case "waits":
      paintWaits(brush, band, top);
      return;
    case "queue":
    case "counter":
      paintCurve(brush, band, top);
      return;
    case "stream":
    case "calls":
      context.fillStyle = cssColor(mix(scene.colors.background, scene.colors.line, 0.4));
      context.fillRect(scene.gutter, top, brush.size.width, band.height);
      for (const row of scene.index.ofLane[band.lane] ?? [])
        paintSlices(brush, row, top, band.height);
      return;
    default:
      for (const row of scene.index.ofLane[band.lane] ?? []) {
        const y = top + row.depth * band.rowPx;
        if (y + band.rowPx > 0 && y < brush.size.height) paintSlices(brush, row, y, band.rowPx - 1);
      }
  }
}

function paintFolded(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  const first = scene.index.ofLane[band.lane]?.[0];
  if (first !== undefined && !band.isEmpty) {
    paintSlices(brush, first, top, band.height);
    return;
  }
  context.font = `${LABEL_PX}px ${scene.colors.uiFont}`;
  context.fillStyle = cssColor(scene.colors.muted);
  context.textAlign = "left";
  const title = scene.lanes[band.lane]?.title ?? "";
  const text = band.isEmpty ? nothingHere(scene, first) : title;
  const left = scene.gutter + TEXT_PAD_PX;
  context.fillText(fitted(context, text, brush.size.width - left), left, top + band.height / 2);
  restoreBoxFont(brush);
}

function nothingHere({ index, scale, tickText, origin }: TimelineScene, row?: SliceRow): string {
  const next = row === undefined ? row : index.start[firstStarting(index, row, scale.span.end)];
  const isLater = next !== undefined && next >= scale.span.end;
  return `nothing here${isLater ? ` · next at ${tickText(next - origin)}` : ""}`;
}
