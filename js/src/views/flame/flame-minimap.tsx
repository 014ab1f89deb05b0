/** The whole flame graph in a strip, with the part that is shown. */

import { MERGED_ROW } from "../../base/boxes";
import type { Weight } from "../../base/units";
import { FillTable, fillOf } from "../../draw/fills";
import { paintFill } from "../../draw/hatch";
import type { MinimapBrush } from "../../draw/minimap";
import { BoxBuffer, layoutFlame } from "../../layout/flame-layout";
import type { ReportContext } from "../common/context";
import { useMinimap } from "../graph/use-minimap";
import { isAwaiting, weightOf } from "./flame-model";
import type { FlameMoves } from "./flame-moves";

interface MinimapProps {
  readonly report: ReportContext;
  readonly moves: FlameMoves;
}

export function FlameMinimap({ report, moves }: MinimapProps) {
  const canvas = useMinimap(moves, () => {
    const { whole, span, model, state, top } = moves;
    const look = report.look.value;
    return {
      theme: look.theme,
      whole,
      span,
      of: [look, weightOf(model, state.weight.value).name, top],
      paintWhole: (brush) => paintWhole(brush, moves),
    };
  });
  // The graph under it has the same data and its keys.
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas without tabIndex has no focus.
  return <canvas ref={canvas} class="tp-flame-minimap" aria-hidden="true" />;
}

function paintWhole(brush: MinimapBrush<Weight>, moves: FlameMoves): void {
  const { model, state, extent, top } = moves;
  const { context, size, scale, colors } = brush;
  const fills = new FillTable(model.phases, model.kinds, colors, model.kernelTone);
  const merged = fillOf(colors.merged);
  const weight = weightOf(model, state.weight.value).name;
  const boxes = layoutFlame(model.tree, extent, scale, new BoxBuffer(), top);
  const levels = Math.max(1, boxes.depthStart.length - 1);
  const rowPx = Math.max(1, Math.min(4, (size.height - 4) / levels));
  for (let depth = 0; depth < levels; depth += 1) {
    const last = boxes.depthStart[depth + 1] ?? 0;
    for (let box = boxes.depthStart[depth] ?? 0; box < last; box += 1) {
      const row = boxes.row[box] ?? MERGED_ROW;
      const own = isAwaiting(model, row, weight) ? fills.waiting : fills.at(row);
      const fill = row === MERGED_ROW ? merged : own;
      const [left, width] = [boxes.left[box] ?? 0, boxes.width[box] ?? 0];
      paintFill(context, fill, left, 2 + depth * rowPx, width, rowPx);
    }
  }
}
