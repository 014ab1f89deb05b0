/** Paints the curves of a timeline: the launch queue, and counters. */

import { cssColor, mix, type Rgb } from "../../base/color";
import { formatCount } from "../../base/format";
import { type MeasureScale, MOST_LEVEL } from "../../base/measure";
import type { Scale } from "../../base/scale";
import type { Ns } from "../../base/units";
import { type Curve, layoutCurve, rangeIn } from "../../layout/curve";
import type { SliceIndex, SliceRow } from "../../layout/slice-index";
import type { Colors } from "../colors";

export interface CurveBrush {
  readonly context: CanvasRenderingContext2D;
  readonly index: SliceIndex;
  readonly scale: Scale<Ns>;
  readonly gutter: number;
  readonly width: number;
  readonly colors: Colors;
}

const LABEL_PX = 11;
const PAD_PX = 8;
// Above and below the highest and the lowest level, so that a line there is whole.
const EDGE_PX = 1.5;

/** How many launches were waiting, as blocks. */
export function paintQueue(
  brush: CurveBrush,
  row: SliceRow,
  curve: Curve,
  highest: number,
  top: number,
  height: number,
): void {
  const { context, index, scale, gutter, colors } = brush;
  context.fillStyle = cssColor(mix(colors.background, colors.muted, 0.8));
  for (const { left, width, most } of layoutCurve(index, row, scale, curve)) {
    const part = Math.max(1, (most / highest) * height);
    const from = Math.max(0, left);
    context.fillRect(gutter + from, top + height - part, left + width - from, part);
  }
  const found = rangeIn(index, row, scale.span, curve);
  if (found !== null) {
    const text = `at most ${formatCount(found.most)} waiting`;
    labelAt(brush, text, top + 1, brush.width + PAD_PX / 2, colors.background);
  }
}

/** A counter as a step line over an area; where many values share a pixel, the line is as high as their range. */
export function paintCounter(
  brush: CurveBrush,
  row: SliceRow,
  curve: Curve,
  { low, high }: MeasureScale,
  top: number,
  height: number,
): void {
  const { context, index, scale, gutter, colors } = brush;
  const y = (level: number) => yOfLevel(level, top, height);
  const zero = y((low / (low - high)) * MOST_LEVEL);
  const pieces = layoutCurve(index, row, scale, curve);
  // A curve that goes on outside of what is to be seen has no edge there.
  const start = gutter + Math.max(-EDGE_PX, pieces[0]?.left ?? 0);
  const line = new Path2D();
  let x = start;
  for (const { left, width, least, most } of pieces) {
    line.lineTo(x, y(most));
    line.lineTo(x, y(least));
    x = gutter + left + width;
    line.lineTo(x, y(least));
  }
  const area = new Path2D(line);
  area.lineTo(x, zero);
  area.lineTo(start, zero);
  context.fillStyle = cssColor(mix(colors.background, colors.line, 0.4));
  context.fillRect(gutter, top, brush.width, height);
  context.fillStyle = cssColor(mix(colors.background, colors.muted, 0.34));
  context.fill(area);
  context.strokeStyle = cssColor(mix(colors.muted, colors.text, 0.35));
  context.lineWidth = 1.25;
  context.stroke(line);
}

/** Where a level stands in a lane. */
export function yOfLevel(level: number, top: number, height: number): number {
  return top + height - EDGE_PX - (level / MOST_LEVEL) * (height - 2 * EDGE_PX);
}

/** What the value under the pointer is, beside the point where it begins. */
export function paintValue(brush: CurveBrush, text: string, left: number, top: number): void {
  labelAt(brush, text, top - LABEL_PX / 2, Math.max(brush.gutter, left), brush.colors.text);
}

/** A text on a ground of its own right of a place, or left of it at the edge of the lanes. */
function labelAt(brush: CurveBrush, text: string, top: number, x: number, ground: Rgb): void {
  const { context, colors, width: whole } = brush;
  context.font = `${LABEL_PX}px ${colors.uiFont}`;
  context.textAlign = "left";
  const width = context.measureText(text).width + PAD_PX;
  const left = x + PAD_PX + width > whole ? x - PAD_PX - width : x + PAD_PX;
  context.fillStyle = cssColor(ground);
  context.fillRect(left, top, width, LABEL_PX + 4);
  context.fillStyle = cssColor(ground === colors.text ? colors.background : colors.muted);
  context.fillText(text, left + PAD_PX / 2, top + LABEL_PX / 2 + 2);
}
