/** The keys of the flame graph and the timeline. */

import type { Direction } from "../../base/direction";
import { isPlain } from "../common/focusable";
import type { GraphMoves } from "./graph-moves";

const ZOOM_IN = 0.7;

type Action<Unit extends number, M extends GraphMoves<Unit>> = (
  moves: M,
  anchor: () => Unit,
) => void;

/**
 * A function that handles a key, and returns whether it was one of the graph's, with `own` keys beside those that all
 * graphs have. `anchor` is where a zoom stays.
 */
export function graphKeys<Unit extends number, M extends GraphMoves<Unit>>(
  own: readonly (readonly [string, Action<Unit, M>])[],
) {
  const actions = new Map([...sharedKeys<Unit, M>(), ...own]);
  return (event: KeyboardEvent, moves: M, anchor: () => Unit): boolean => {
    // One step back, then what Esc does in every view.
    if (event.key === "Escape" && moves.back()) event.preventDefault();
    const action = actions.get(event.key.toLowerCase());
    // Keys with Ctrl, Alt or Meta are left to the browser.
    if (action === undefined || !isPlain(event)) return false;
    event.preventDefault();
    action(moves, anchor);
    return true;
  };
}

function sharedKeys<Unit extends number, M extends GraphMoves<Unit>>() {
  const zoom =
    (factor: number): Action<Unit, M> =>
    (moves, anchor) =>
      moves.zoomAround(anchor(), factor);
  const pan =
    (direction: number): Action<Unit, M> =>
    (moves) =>
      moves.panStep(direction);
  const step =
    (direction: Direction): Action<Unit, M> =>
    (moves) =>
      moves.step(direction);
  const fit: Action<Unit, M> = (moves) => moves.fit();
  return [
    ["w", zoom(ZOOM_IN)],
    ["+", zoom(ZOOM_IN)],
    ["=", zoom(ZOOM_IN)],
    ["s", zoom(1 / ZOOM_IN)],
    ["-", zoom(1 / ZOOM_IN)],
    ["a", pan(-1)],
    ["d", pan(1)],
    ["home", fit],
    ["0", fit],
    ["arrowup", step("up")],
    ["arrowdown", step("down")],
    ["arrowright", step("next")],
    ["arrowleft", step("previous")],
  ] as const;
}
