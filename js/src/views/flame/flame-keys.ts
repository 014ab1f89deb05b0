/** The keys of the flame graph. */

import type { Weight } from "../../base/units";
import { graphKeys } from "../graph/graph-keys";
import type { FlameMoves } from "./flame-moves";

export const actOnFlameKey = graphKeys<Weight, FlameMoves>([
  ["enter", (moves) => moves.focus(Math.max(0, moves.state.row.value))],
]);
