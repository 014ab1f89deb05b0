/** Navigation in a flame graph. It changes the state of the graph and draws nothing. */

import { panSpan, type Span } from "../../base/scale";
import { type Weight, weight } from "../../base/units";
import { type Direction, holderOf, neighbour, spanOf, zoomed } from "../../layout/flame-place";
import type { FlameExtent } from "../../layout/flame-tree";
import { type FlamePlace, type FlameState, type Store, select, WHOLE } from "../../state/store";
import { wordAt } from "../../wire/frame";
import { type FlameModel, weightOf } from "./flame-model";

const MOST_HISTORY = 50;
const PAN_SHARE = 0.15;

/** Navigation in one flame graph. */
export class FlameMoves {
  readonly model: FlameModel;
  readonly state: FlameState;
  readonly #store: Store;

  constructor(model: FlameModel, state: FlameState, store: Store) {
    this.model = model;
    this.state = state;
    this.#store = store;
  }

  get extent(): FlameExtent {
    return this.model.extent(weightOf(this.model, this.state.weight.value).name);
  }

  /** The span that is shown, or that the animation moves to. */
  get span(): Span<Weight> {
    const { focus, span } = this.state.place.value;
    return span ?? spanOf(this.extent, focus);
  }

  /** The zoom factor: how many times the whole graph is wider than the shown span. */
  get zoom(): number {
    const whole = spanOf(this.extent, 0);
    const length = this.span.end - this.span.start;
    return length > 0 ? (whole.end - whole.start) / length : 1;
  }

  select(row: number): void {
    this.state.row.value = row;
    select(this.#store, wordAt(this.model.names, row), wordAt(this.model.kinds, row));
  }

  /** Zooms so that a box fills the width; Esc goes back. */
  focus(row: number): void {
    const { place } = this.state;
    if (place.value.focus === row && place.value.span === null) return;
    if ((this.extent.total[row] ?? 0) <= 0) return;
    this.#remember();
    place.value = { focus: row, span: null };
  }

  /** One step back; false when there is none. */
  back(): boolean {
    const { history, place } = this.state;
    const last = history.value.at(-1);
    if (last === undefined) return false;
    history.value = history.value.slice(0, -1);
    place.value = last;
    return true;
  }

  clearSelection(): void {
    this.state.row.value = -1;
    this.#store.selection.value = null;
  }

  zoomAround(anchor: Weight, factor: number): void {
    const next = zoomed(this.extent, this.span, anchor, factor);
    this.#show(next);
  }

  panBy(delta: Weight): void {
    if (this.zoom <= 1.0001) return;
    this.#show(panSpan(this.span, delta, spanOf(this.extent, 0)));
  }

  /** Pans by a part of the window; -1 is left, 1 right. */
  panStep(direction: number): void {
    this.panBy(weight((this.span.end - this.span.start) * PAN_SHARE * direction));
  }

  /** Selects a neighboring box, and scrolls it into the window. */
  step(direction: Direction): void {
    const from = this.state.row.value < 0 ? this.state.place.value.focus : this.state.row.value;
    const isFirst = this.state.row.value < 0;
    const row = isFirst ? from : neighbour(this.model.tree, this.extent, from, direction);
    this.select(row);
    this.#bringIn(row);
  }

  /** Changes the weight, which resets the zoom because spans of the old weight are meaningless. */
  weigh(name: string): void {
    const { weight: chosen, place, history } = this.state;
    chosen.value = name;
    place.value = { ...place.value, span: null };
    history.value = history.value.map((each) => ({ ...each, span: null }));
    if ((this.extent.total[place.value.focus] ?? 0) <= 0) place.value = WHOLE;
  }

  #bringIn(row: number): void {
    const own = spanOf(this.extent, row);
    const { start, end } = this.span;
    if (own.end > start && own.start < end) return;
    this.focus(this.model.tree.parent[row] ?? 0);
  }

  #show(span: Span<Weight>): void {
    const { place } = this.state;
    const { tree } = this.model;
    // A series of zooms and pans counts as one step back.
    if (place.value.span === null) this.#remember();
    const focus = holderOf(tree, this.extent, place.value.focus, span);
    place.value = { focus, span } satisfies FlamePlace;
  }

  #remember(): void {
    const { history, place } = this.state;
    history.value = [...history.value, place.value].slice(-MOST_HISTORY);
  }
}
