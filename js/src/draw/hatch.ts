/** Hatches a box. */

import type { Fill } from "./fills";

// Narrower boxes have no room for lines.
const LEAST_HATCHED_PX = 5;
const WAITING_STEP_PX = 6;
const HALO_PX = 3;

/** Fills a box, and hatches it where it is waiting. */
export function paintFill(
  context: CanvasRenderingContext2D,
  fill: Fill,
  left: number,
  top: number,
  width: number,
  height: number,
): void {
  context.fillStyle = fill.box;
  context.fillRect(left, top, width, height);
  hatchWaiting(context, fill, left, top, width, height);
}

/** Paints the lines of a box of waiting over it; returns whether it did, and with that changed the fill. */
export function hatchWaiting(
  context: CanvasRenderingContext2D,
  { hatch }: Fill,
  left: number,
  top: number,
  width: number,
  height: number,
): boolean {
  if (hatch === null || width < LEAST_HATCHED_PX) return false;
  context.fillStyle = hatch.ground;
  context.fillRect(left, top, width, height);
  context.strokeStyle = hatch.line;
  context.lineWidth = 1;
  paintHatch(context, left, top, width, height, WAITING_STEP_PX);
  return true;
}

/** Separates a name from the lines under it. */
export function haloOnHatch(
  context: CanvasRenderingContext2D,
  { hatch }: Fill,
  text: string,
  x: number,
  y: number,
): void {
  if (hatch === null) return;
  context.lineWidth = HALO_PX;
  context.lineJoin = "round";
  context.strokeStyle = hatch.ground;
  context.strokeText(text, x, y);
}

/** Lines from the lower left to the upper right, `stepPx` apart, in the stroke style of the context; or crossed. */
export function paintHatch(
  context: CanvasRenderingContext2D,
  left: number,
  top: number,
  width: number,
  height: number,
  stepPx: number,
  isCrossed = false,
): void {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.beginPath();
  // From whole multiples on, so that the pattern stands still while the window moves over it.
  const first = Math.floor((left - height) / stepPx) * stepPx;
  for (let x = first; x < left + width; x += stepPx) {
    context.moveTo(x, top + height);
    context.lineTo(x + height, top);
    if (isCrossed) {
      context.moveTo(x, top);
      context.lineTo(x + height, top + height);
    }
  }
  context.stroke();
  context.restore();
}
