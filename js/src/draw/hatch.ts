/** Hatches a box. */

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
