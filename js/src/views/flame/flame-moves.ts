/** Navigation in a flame graph. It changes the state of the graph and draws nothing. */

import type { Direction } from "../../base/direction";
import { panSpan, type Span } from "../../base/scale";
import type { Weight } from "../../base/units";
import { holderOf, neighbour, spanOf, zoomed } from "../../layout/flame-place";
import { firstInteresting } from "../../layout/flame-search";
import type { FlameExtent } from "../../layout/flame-tree";
import { type FlamePlace, type FlameState, type Store, select, WHOLE } from "../../state/store";
import { wordAt } from "../../wire/frame";
import { GraphMoves, MOST_HISTORY } from "../graph/graph-moves";
import { type FlameModel, weightOf } from "./flame-model";

const FIRST_KINDS = ["line", "module", "annotation", "op"];
// A box that is shown on request is at least this part of the window, or the window gets shorter.
const LEAST_SHARE = 0.01;

/** Navigation in one flame graph. */
export class FlameMoves extends GraphMoves<Weight> {
  override readonly model: FlameModel;
  override readonly state: FlameState;
  #top: { readonly weight: string; readonly row: number } | null = null;

  constructor(model: FlameModel, state: FlameState, store: Store) {
    super(store);
    this.model = model;
    this.state = state;
  }

  get extent(): FlameExtent {
    return this.model.extent(weightOf(this.model, this.state.weight.value).name);
  }

  override get span(): Span<Weight> {
    const { focus, span } = this.state.place.value;
    return span ?? this.spanOf(focus);
  }

  override get whole(): Span<Weight> {
    return this.spanOf(0);
  }

  override spanOf(row: number): Span<Weight> {
    return spanOf(this.extent, row);
  }

  /** The box at the top: below it the graph branches or the user's code begins. */
  get top(): number {
    return this.state.showsOuter.value ? 0 : this.firstTop;
  }

  get firstTop(): number {
    const { model } = this;
    const chosen = weightOf(model, this.state.weight.value).name;
    if (this.#top?.weight !== chosen) {
      const isOwn = (row: number) => FIRST_KINDS.includes(wordAt(model.kinds, row));
      this.#top = { weight: chosen, row: firstInteresting(model.tree, this.extent, isOwn) };
    }
    return this.#top.row;
  }

  /** The zoom factor: how many times the whole graph is wider than the shown span. */
  get zoom(): number {
    const { whole } = this;
    const length = this.span.end - this.span.start;
    return length > 0 ? (whole.end - whole.start) / length : 1;
  }

  override select(row: number): void {
    this.state.row.value = row;
    select(this.store, wordAt(this.model.names, row), wordAt(this.model.kinds, row));
  }

  override focus(row: number): void {
    const { place } = this.state;
    if (place.value.focus === row && place.value.span === null) return;
    if ((this.extent.total[row] ?? 0) <= 0) return;
    this.#remember();
    place.value = { focus: row, span: null };
  }

  override fit(): void {
    this.focus(0);
  }

  override back(): boolean {
    const { history, place } = this.state;
    const last = history.value.at(-1);
    if (last === undefined) return false;
    history.value = history.value.slice(0, -1);
    place.value = last;
    return true;
  }

  /** Shows a box: selected, in the window, and wide enough to read. */
  reveal(row: number): void {
    this.select(row);
    if (this.model.tree.depth[row] !== undefined && row > 0 && !this.#isBelowTop(row)) {
      this.state.showsOuter.value = true;
    }
    const own = this.spanOf(row);
    const { start, end } = this.span;
    const isInside = own.start >= start && own.end <= end;
    if (isInside && own.end - own.start >= (end - start) * LEAST_SHARE) return;
    let around = row;
    // As much of what is around it as leaves it wide enough.
    while (around > 0) {
      const above = this.spanOf(this.model.tree.parent[around] ?? 0);
      if (own.end - own.start < (above.end - above.start) * LEAST_SHARE * 4) break;
      around = this.model.tree.parent[around] ?? 0;
    }
    this.focus(around);
  }

  #isBelowTop(row: number): boolean {
    const { tree } = this.model;
    for (let at = row; at >= 0; at = tree.parent[at] ?? -1) if (at === this.firstTop) return true;
    return false;
  }

  override zoomAround(anchor: Weight, factor: number): void {
    this.#show(zoomed(this.extent, this.span, anchor, factor));
  }

  override panBy(delta: Weight): void {
    if (this.zoom <= 1.0001) return;
    this.#show(panSpan(this.span, delta, this.whole));
  }

  /** Selects a neighboring box, and scrolls it into the window. */
  override step(direction: Direction): void {
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
    const own = this.spanOf(row);
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
