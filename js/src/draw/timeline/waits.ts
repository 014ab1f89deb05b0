/** Paints what a device waits for, hatched. */

import { cssColor, mix } from "../../base/color";
import { formatNs } from "../../base/format";
import { px } from "../../base/units";
import type { LaneBand } from "../../layout/lane-bands";
import { HARDLY_IDLE, layoutWaits, type WaitBox } from "../../layout/waits";
import { outlineMatch } from "../box-marks";
import { paintHatch } from "../hatch";
import { type Brush, fitted, restoreBoxFont, TEXT_PX, type TimelineScene, xOf } from "./scene";

const HATCH_PX = 6;
const LINE_PX = 14;
// In less room words say nothing.
const LEAST_WORDS_PX = 54;
// What Python calls the cause of waits in which the device may have done what is not in the file.
const MISSING = "missing events";

function hatch(
  brush: Brush,
  cause: number,
  left: number,
  top: number,
  width: number,
  height: number,
): void {
  const { context, scene, size } = brush;
  const from = Math.max(scene.gutter, left);
  const to = Math.min(size.width, left + width);
  if (to <= from) return;
  const isMissing = scene.causeTitle(cause) === MISSING;
  const ink = isMissing ? scene.colors.warning : scene.colors.muted;
  context.strokeStyle = cssColor(mix(scene.colors.background, ink, 0.75));
  context.lineWidth = 1;
  paintHatch(context, from, top, to - from, height, HATCH_PX, isMissing);
}

export function paintWaits(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene, size } = brush;
  const waits = scene.waitsOf(band.lane);
  context.fillStyle = cssColor(mix(scene.colors.background, scene.colors.line, 0.4));
  context.fillRect(scene.gutter, top, size.width, band.height);
  if (waits === null) return;
  const boxes = layoutWaits(waits, scene.scale);
  for (const box of boxes) paintWait(brush, box, top, band.height);
  markLongest(brush, band, top);
  for (const box of boxes) labelWait(brush, box, top, band.height);
}

// Narrower, the mark of the longest wait would be no box.
const LEAST_MARK_PX = 6;

/** A frame around the longest wait in the window. */
function markLongest(brush: Brush, band: LaneBand, top: number): void {
  const { context, scene } = brush;
  if (scene.longest?.lane !== band.lane) return;
  const left = xOf(brush, scene.longest.start);
  const width = Math.max(LEAST_MARK_PX, xOf(brush, scene.longest.end) - left);
  context.strokeStyle = cssColor(scene.colors.text);
  context.lineWidth = 2;
  context.strokeRect(left, top + 1, width, band.height - 2);
}

/** The part of a box that is in sight. */
function shownOf({ scene, size }: Brush, { left, width }: WaitBox): [left: number, width: number] {
  const from = Math.max(scene.gutter, scene.gutter + left);
  return [from, Math.min(size.width, scene.gutter + left + width) - from];
}

function paintWait(brush: Brush, box: WaitBox, top: number, height: number): void {
  const { context, scene } = brush;
  const [left, width] = shownOf(brush, box);
  if (box.count > 1) {
    const part = Math.max(3, height * Math.min(1, shareOf(scene, box)));
    hatch(brush, box.cause, left, top + height - part, width, part);
  } else {
    hatch(brush, box.cause, left, top, Math.max(1, width), height);
    context.strokeStyle = cssColor(scene.colors.muted);
    context.lineWidth = 1;
    if (width > 4) context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
    if (scene.matches?.[box.row] === 1)
      outlineMatch(context, scene.colors, left, top, width - 1, height);
  }
}

/** Which part of the time of a box is waiting. */
function shareOf({ scale }: TimelineScene, { ns, width }: WaitBox): number {
  return ns / Math.max(1, scale.lengthFromPx(px(width)));
}

/** What a wait is, and how long a single gap, on a plain ground in its middle; what many come to is said elsewhere. */
function labelWait(brush: Brush, box: WaitBox, top: number, height: number): void {
  const { context, scene } = brush;
  const [left, width] = shownOf(brush, box);
  const room = width - 8;
  const usual = `${TEXT_PX}px ${scene.colors.uiFont}`;
  context.font = usual;
  const isRare = box.count > 1 && shareOf(scene, box) < HARDLY_IDLE;
  const what = room > LEAST_WORDS_PX && !isRare ? fitted(context, waitTitle(scene, box), room) : "";
  const long = box.gaps > 1 ? "" : formatNs(box.ns);
  const lines = [
    { text: what, font: usual },
    { text: long, font: `600 ${usual}` },
  ].filter(({ text }) => text !== "");
  const widths = lines.map(({ text, font }) => {
    context.font = font;
    return context.measureText(text).width;
  });
  const wide = Math.max(0, ...widths);
  if (wide > 0 && wide <= room) {
    const ground = lines.length * LINE_PX;
    const middle = left + width / 2;
    const from = top + (height - ground) / 2;
    context.fillStyle = cssColor(scene.colors.background);
    context.fillRect(middle - wide / 2 - 4, from, wide + 8, ground);
    context.textAlign = "center";
    context.fillStyle = cssColor(scene.colors.text);
    for (const [at, { text, font }] of lines.entries()) {
      context.font = font;
      context.fillText(text, middle, from + (at + 0.5) * LINE_PX);
    }
    context.textAlign = "left";
  }
  restoreBoxFont(brush);
}

/** "in aten::copy_" for one wait, "launching ops" for a stretch of many. */
function waitTitle(
  scene: Pick<TimelineScene, "names" | "titles" | "causeTitle">,
  box: WaitBox,
): string {
  const name = scene.titles[scene.names.keys[box.row] ?? -1] ?? "";
  const cause = scene.causeTitle(box.cause);
  if (box.count > 1) return `mostly ${cause}`;
  return name === "" ? cause : `${cause} · ${name}`;
}
