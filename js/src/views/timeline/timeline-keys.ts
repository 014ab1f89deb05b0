/** The keys of a timeline. */

import type { Ns } from "../../base/units";
import { isPlain } from "../common/focusable";
import type { Direction, TimelineMoves } from "./timeline-moves";

const ZOOM_IN = 0.7;

type Anchor = () => Ns;
type Action = (moves: TimelineMoves, anchor: Anchor) => void;

const zoomIn: Action = (moves, anchor) => moves.zoomAround(anchor(), ZOOM_IN);
const zoomOut: Action = (moves, anchor) => moves.zoomAround(anchor(), 1 / ZOOM_IN);
const step =
  (direction: Direction): Action =>
  (moves) =>
    moves.step(direction);

const ACTIONS = new Map<string, Action>([
  ["w", zoomIn],
  ["+", zoomIn],
  ["=", zoomIn],
  ["s", zoomOut],
  ["-", zoomOut],
  ["a", (moves) => moves.panStep(-1)],
  ["d", (moves) => moves.panStep(1)],
  ["0", (moves) => moves.fit()],
  ["home", (moves) => moves.fit()],
  ["arrowup", step("up")],
  ["arrowdown", step("down")],
  ["arrowright", step("next")],
  ["arrowleft", step("previous")],
  ["r", (moves) => moves.chooseSelected()],
  [" ", (moves) => moves.toggleOwnLane()],
  [
    "enter",
    (moves) => {
      if (moves.state.row.value >= 0) moves.focus(moves.state.row.value);
    },
  ],
]);

/** Handles a key; returns whether it was one of the timeline's. */
export function actOnTimelineKey(
  event: KeyboardEvent,
  moves: TimelineMoves,
  anchor: Anchor,
): boolean {
  const action = ACTIONS.get(event.key.toLowerCase());
  if (action === undefined || !isPlain(event)) return false;
  event.preventDefault();
  action(moves, anchor);
  return true;
}
