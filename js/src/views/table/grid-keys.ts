/** The row that a key moves to. */

import { isPlain } from "../common/focusable";

type Move = (at: number, last: number, page: number) => number;

const MOVES = new Map<string, Move>([
  ["ArrowDown", (at) => at + 1],
  ["ArrowUp", (at) => at - 1],
  ["PageDown", (at, _last, page) => at + page],
  ["PageUp", (at, _last, page) => at - page],
  ["Home", () => 0],
  ["End", (_at, last) => last],
]);

/** The index of the row that a key moves to, or null for other keys. */
export function moveFor(
  event: KeyboardEvent,
  at: number,
  rows: number,
  page: number,
): number | null {
  const move = MOVES.get(event.key);
  if (move === undefined || !isPlain(event) || rows === 0) return null;
  return Math.min(rows - 1, Math.max(0, move(at, rows - 1, page)));
}
