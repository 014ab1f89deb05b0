/** The boxes of a flame graph as a table for screen readers. */

import { MERGED_ROW } from "../../base/boxes";
import { formatRatio, formatValue } from "../../base/format";
import { largestOf } from "../../base/largest";
import { phaseTitle } from "../../base/palette";
import { linearScale } from "../../base/scale";
import { px } from "../../base/units";
import { BoxBuffer, layoutFlame } from "../../layout/flame-layout";
import { numberAt, wordAt } from "../../wire/frame";
import type { WeightHeader } from "../../wire/header";
import { MOST_SPOKEN, type SpokenRows, SpokenTable } from "../common/spoken-table";
import { weightDivisor } from "./flame-model";
import type { FlameMoves } from "./flame-moves";

// As if it were drawn this wide: boxes under a pixel are not in the table either.
const WIDTH_PX = 1000;

interface FlameTableProps {
  readonly id: string;
  readonly moves: FlameMoves;
  readonly weight: WeightHeader;
}

export function FlameTable({ id, moves, weight }: FlameTableProps) {
  const { start, end } = moves.span;
  return (
    <SpokenTable
      id={id}
      caption="Boxes in the window, outermost first"
      head={["Level", "Name", "Phase", weight.title, "Share"]}
      make={() => spokenBoxes(moves, weight)}
      when={[moves.model, start, end, weight.name, moves.top]}
    />
  );
}

function spokenBoxes({ model, extent, span, top }: FlameMoves, weight: WeightHeader): SpokenRows {
  const boxes = layoutFlame(
    model.tree,
    extent,
    linearScale(span, px(WIDTH_PX)),
    new BoxBuffer(),
    top,
  );
  const places = Array.from({ length: boxes.count }, (_, box) => box).filter(
    (box) => boxes.row[box] !== MERGED_ROW && (boxes.width[box] ?? 0) >= 1,
  );
  const widest = largestOf(places, MOST_SPOKEN, (box) => boxes.width[box] ?? 0);
  // Rows of the tree are in preorder.
  const rows = widest.map((box) => boxes.row[box] ?? 0).toSorted((a, b) => a - b);
  const whole = numberAt(model.frame, `total_${weight.name}`, 0);
  const outermost = model.tree.depth[top] ?? 0;
  return {
    count: places.length,
    rows: rows.map((row) => {
      const total = numberAt(model.frame, `total_${weight.name}`, row);
      return [
        String((model.tree.depth[row] ?? 0) - outermost + 1),
        wordAt(model.names, row),
        row === 0 ? "" : phaseTitle(wordAt(model.phases, row)),
        formatValue(total / weightDivisor(model, weight), weight.unit),
        formatRatio(whole > 0 ? total / whole : 0),
      ];
    }),
  };
}
