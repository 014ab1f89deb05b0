/** Paints the phases of the steps as a thin strip. */

import type { Scale } from "../../base/scale";
import type { Ns } from "../../base/units";
import type { SliceIndex, SliceRow } from "../../layout/slice-index";
import { layoutSlices, SliceBoxes } from "../../layout/slice-layout";
import type { FillTable } from "../fills";
import { paintFill } from "../hatch";

const scratch = new SliceBoxes();

export function paintPhases(
  context: CanvasRenderingContext2D,
  phases: { readonly index: SliceIndex; readonly row: SliceRow; readonly fills: FillTable },
  scale: Scale<Ns>,
  [left, top]: readonly [number, number],
  height: number,
): void {
  const { index, row, fills } = phases;
  layoutSlices(index, row, scale, scratch, (each) => fills.idOf(each));
  for (let box = 0; box < scratch.count; box += 1) {
    const [x, width] = [left + (scratch.left[box] ?? 0), scratch.width[box] ?? 0];
    paintFill(context, fills.at(scratch.like[box] ?? 0), x, top, width, height);
  }
}
