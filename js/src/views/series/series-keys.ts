/** The keys of a chart. */

import type { ReadonlySignal } from "@preact/signals";
import { isPlain } from "../common/focusable";

export interface SeriesCursor {
  readonly index: ReadonlySignal<number>;
  readonly last: number;
  /** Lists what is in use at the change that it points at. */
  pick(): void;
  /** Points at a change, and chooses the range up to it. */
  go(index: number, isRange: boolean): void;
}

const PAGE = 20;

const MOVES = new Map<string, (at: number, last: number) => number>([
  ["ArrowRight", (at) => at + 1],
  ["ArrowLeft", (at) => at - 1],
  ["PageDown", (at) => at + PAGE],
  ["PageUp", (at) => at - PAGE],
  ["Home", () => 0],
  ["End", (_at, last) => last],
]);

export function actOnSeriesKey(event: KeyboardEvent, cursor: SeriesCursor): void {
  if (event.key === "Enter" && isPlain(event)) {
    event.preventDefault();
    cursor.pick();
    return;
  }
  const move = MOVES.get(event.key);
  if (move === undefined || !isPlain(event)) return;
  event.preventDefault();
  cursor.go(move(cursor.index.value, cursor.last), event.shiftKey);
}
