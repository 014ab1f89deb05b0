/** Navigation that the flame graph and the timeline share. */

import type { Signal } from "@preact/signals";
import type { Direction } from "../../base/direction";
import type { Span } from "../../base/scale";
import type { Store } from "../../state/store";
import type { TextColumn } from "../../wire/frame";

/** How many places are kept to go back to. */
export const MOST_HISTORY = 50;
const PAN_SHARE = 0.15;

/** Navigation in one graph. It changes state and draws nothing. */
export abstract class GraphMoves<Unit extends number> {
  abstract readonly state: {
    /** The box that is selected, -1 for none. */
    readonly row: Signal<number>;
    readonly match: Signal<number>;
  };
  /** What the fills of the boxes mean. */
  abstract readonly model: { readonly phases: TextColumn; readonly kinds: TextColumn };
  protected readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  /** What is to be seen, or what an animation moves to. */
  abstract get span(): Span<Unit>;
  abstract get whole(): Span<Unit>;
  abstract spanOf(box: number): Span<Unit>;
  abstract select(box: number): void;
  /** Zooms so that a box fills the width; Esc goes back. */
  abstract focus(box: number): void;
  /** Shows the whole. */
  abstract fit(): void;
  abstract zoomAround(anchor: Unit, factor: number): void;
  abstract panBy(delta: Unit): void;
  /** Selects the neighbor of the selected box. */
  abstract step(direction: Direction): void;
  /** One step back; false when there is none. */
  abstract back(): boolean;

  /** Pans by a part of the window; -1 is left, 1 right. */
  panStep(direction: number): void {
    this.panBy(((this.span.end - this.span.start) * PAN_SHARE * direction) as Unit);
  }

  clearSelection(): void {
    this.state.row.value = -1;
    this.store.selection.value = null;
  }
}
