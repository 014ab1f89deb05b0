/** The keys of the flame graph. */

import type { Weight } from "../../base/units";
import type { Direction } from "../../layout/flame-place";
import { isPlain } from "../common/focusable";
import type { FlameMoves } from "./flame-moves";

const ZOOM_IN = 0.7;

/** The anchor of a zoom by key: the pointer, else the selection, else the middle. */
type Anchor = () => Weight;
type Action = (moves: FlameMoves, anchor: Anchor) => void;

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
  ["arrowup", step("parent")],
  ["arrowdown", step("child")],
  ["arrowright", step("next")],
  ["arrowleft", step("previous")],
  ["home", (moves) => moves.focus(0)],
  ["0", (moves) => moves.focus(0)],
  ["enter", (moves) => moves.focus(Math.max(0, moves.state.row.value))],
]);

/** Handles a key; keys with Ctrl, Alt or Meta are left to the browser. */
export function actOnKey(event: KeyboardEvent, moves: FlameMoves, anchor: Anchor): void {
  // One zoom back, then what Esc does in every view.
  if (event.key === "Escape" && moves.back()) event.preventDefault();
  const action = ACTIONS.get(event.key.toLowerCase());
  if (action === undefined || !isPlain(event)) return;
  event.preventDefault();
  action(moves, anchor);
}
