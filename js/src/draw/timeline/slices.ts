/** Paints the slices of one row of a lane, with their names. */

import { MERGED_ROW } from "../../base/boxes";
import type { SliceRow } from "../../layout/slice-index";
import { layoutSlices } from "../../layout/slice-layout";
import { outlineMatch, underline } from "../box-marks";
import type { Fill } from "../fills";
import { haloOnHatch, hatchWaiting } from "../hatch";
import { type Brush, TEXT_PAD_PX } from "./scene";

const TEXT_MIN_PX = 26;

/** Boxes as high as the row, with names; those narrower than a pixel as high as they cover. */
export function paintSlices(brush: Brush, row: SliceRow, top: number, height: number): void {
  const { context, scene, boxes, fills, size } = brush;
  layoutSlices(scene.index, row, scene.scale, boxes, (each) => fills.idOf(each));
  let style = "";
  for (let box = 0; box < boxes.count; box += 1) {
    const like = boxes.like[box] ?? 0;
    const fill = fills.at(like);
    if (fill.box !== style) {
      style = fill.box;
      context.fillStyle = style;
    }
    const width = boxes.width[box] ?? 0;
    const left = scene.gutter + (boxes.left[box] ?? 0);
    const from = Math.max(scene.gutter, left);
    const shown = Math.min(size.width, left + width) - from;
    const part =
      boxes.row[box] === MERGED_ROW ? Math.max(2, height * (boxes.cover[box] ?? 1)) : height;
    context.fillRect(from, top + height - part, shown > 3 ? shown - 1 : Math.max(shown, 0.6), part);
    if (boxes.row[box] === MERGED_ROW) continue;
    if (hatchWaiting(context, fill, from, top, shown - 1, height)) style = "";
    const isNamed = writeName(brush, like, fill, from, top, shown, height);
    if (markSlice(brush, like, from, top, shown, height) || isNamed) style = "";
  }
}

/** Writes the name of a slice if there is room for it; returns whether it changed the fill. */
function writeName(
  { context, scene, texts }: Brush,
  row: number,
  fill: Fill,
  left: number,
  top: number,
  width: number,
  height: number,
): boolean {
  if (width < TEXT_MIN_PX || height <= 10) return false;
  const title = scene.titles[scene.names.keys[row] ?? -1] ?? "";
  const text = texts.fit(title, width - 2 * TEXT_PAD_PX);
  if (text === "") return false;
  context.fillStyle = fill.text;
  const [x, y] = [left + TEXT_PAD_PX, top + height / 2 + 0.5];
  haloOnHatch(context, fill, text, x, y);
  context.fillText(text, x, y);
  return true;
}

/** Marks a slice of the selected name, or one that the search finds; returns whether it is one. */
function markSlice(
  { context, scene }: Brush,
  row: number,
  left: number,
  top: number,
  width: number,
  height: number,
): boolean {
  const key = scene.names.keys[row] ?? -1;
  if (key >= 0 && key === scene.selectedKey) {
    underline(context, scene.colors, left, top, Math.max(1, width - 1), height);
    return true;
  }
  if (scene.matches?.[row] !== 1) return false;
  outlineMatch(context, scene.colors, left, top, width - 1, height);
  return true;
}
