/** The keys of a timeline. */

import type { Ns } from "../../base/units";
import { graphKeys } from "../graph/graph-keys";
import type { TimelineMoves } from "./timeline-moves";

export const actOnTimelineKey = graphKeys<Ns, TimelineMoves>([
  ["r", (moves) => moves.chooseSelected()],
  ["p", (moves) => moves.togglePath()],
  [" ", (moves) => moves.toggleOwnLane()],
  [
    "enter",
    (moves) => {
      if (moves.state.row.value >= 0) moves.focus(moves.state.row.value);
    },
  ],
]);
