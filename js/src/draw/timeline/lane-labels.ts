/** Paints the labels left of the lanes. */

import { cssColor } from "../../base/color";
import { formatRatio } from "../../base/format";
import { measureRangeText } from "../../base/measure";
import type { LaneBand } from "../../layout/lane-bands";
import { busyRatio } from "../../layout/waits";
import type { SliceLane } from "../../wire/header";
import { AXIS_PX, type Brush, fitted, LABEL_PX, restoreBoxFont } from "./scene";

// A ring around the canvas that has the focus is left of them.
const LEFT_PX = 5;

export function paintLabel(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  const lane = scene.lanes[band.lane];
  if (lane === undefined) return;
  const { kind } = lane;
  // A thread without ops begins with its calls.
  const title = band.isFirst ? lane.group : kind === "counters" ? kind : lane.title;
  const isMain = kind === "thread" || kind === "waits" || band.isFirst;
  const middle = top + Math.min(band.height, band.rowPx || band.height) / 2;
  if (middle < AXIS_PX + 4) return;
  context.font = `${isMain ? "600 " : ""}${LABEL_PX}px ${scene.colors.uiFont}`;
  context.textAlign = "left";
  const isDim = !isMain && kind !== "counter";
  context.fillStyle = cssColor(isDim ? scene.colors.muted : scene.colors.text);
  const mark = isMain || kind === "counters" ? (band.isFolded ? "▸ " : "▾ ") : "";
  const second = band.isFolded ? "" : secondLine(brush, band.lane, kind);
  const y = second === "" ? middle : middle - 7;
  context.fillText(fitted(context, mark + title, scene.gutter - 10), LEFT_PX, y);
  if (second !== "") {
    context.font = `${LABEL_PX - 1}px ${scene.colors.uiFont}`;
    context.fillStyle = cssColor(scene.colors.muted);
    context.fillText(fitted(context, second, scene.gutter - 10), LEFT_PX, middle + 8);
  }
  restoreBoxFont(brush);
}

/** What stands below the title of a lane: how busy a device is, or between which values a counter is. */
function secondLine(brush: Brush, lane: number, kind: SliceLane["kind"]): string {
  if (kind === "waits") return busyText(brush, lane);
  const scale = brush.scene.lanes[lane]?.scale;
  return scale == null ? "" : measureRangeText(scale);
}

function busyText({ scene }: Brush, lane: number): string {
  const { start, end } = scene.scale.span;
  const [busy, waits] = [scene.busyOf(lane), scene.waitsOf(lane)];
  const ratio = busyRatio(scene.base, busy, waits, scene.waitsFrom, start, end);
  return `${formatRatio(ratio)} busy`;
}
