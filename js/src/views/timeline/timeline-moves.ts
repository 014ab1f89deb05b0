/** Navigation in a timeline. It changes state and draws nothing. */

import { panSpan, type Span, zoomSpan } from "../../base/scale";
import { type Ns, ns } from "../../base/units";
import type { SliceIndex } from "../../layout/slice-index";
import { type Store, select, type TimelineState } from "../../state/store";
import { wordAt } from "../../wire/frame";
import { type Step, spanOfSlice, type TimelineModel, typicalSpan } from "./timeline-model";

const MOST_HISTORY = 50;
const PAN_SHARE = 0.15;
const SHORTEST_NS = ns(200);
// A slice that is shown on request is at least this part of the window, or the window gets shorter.
const LEAST_SHARE = 0.004;
const FOCUS_FACTOR = 12;
// What a double click leaves free on both sides.
const MARGIN = 0.05;

export type Direction = "previous" | "next" | "up" | "down";

export class TimelineMoves {
  readonly model: TimelineModel;
  readonly state: TimelineState;
  readonly #store: Store;
  #place: { readonly layer: string; readonly depth: ArrayLike<number> } | null = null;

  constructor(model: TimelineModel, state: TimelineState, store: Store) {
    this.model = model;
    this.state = state;
    this.#store = store;
  }

  get span(): Span<Ns> {
    return this.state.window.value ?? typicalSpan(this.model);
  }

  /** The chosen layer, or the first. */
  get layer(): string {
    const { layers } = this.model.view;
    const chosen = layers.find(({ column }) => column === this.state.layer.value);
    return (chosen ?? layers[0])?.column ?? "depth";
  }

  get index(): SliceIndex {
    return this.model.index(this.layer);
  }

  /** The lane of a slice, and its depth in the shown layer; -1 when that hides it. */
  placeOf(row: number): { readonly lane: number; readonly depth: number } {
    if (this.#place?.layer !== this.layer) {
      const column = this.model.frame.columns.get(this.layer);
      this.#place = { layer: this.layer, depth: column?.kind === "number" ? column.values : [] };
    }
    return { lane: this.model.lane[row] ?? 0, depth: this.#place.depth[row] ?? -1 };
  }

  show(span: Span<Ns>): void {
    this.state.window.value = span;
  }

  /** Goes to another part of the recording; Esc comes back. */
  jump(span: Span<Ns>): void {
    const { history } = this.state;
    history.value = [...history.value, this.span].slice(-MOST_HISTORY);
    this.show(zoomSpan(span, span.start, 1, this.model.whole, SHORTEST_NS));
  }

  zoomAround(anchor: Ns, factor: number): void {
    this.show(zoomSpan(this.span, anchor, factor, this.model.whole, SHORTEST_NS));
  }

  panBy(delta: Ns): void {
    this.show(panSpan(this.span, delta, this.model.whole));
  }

  panStep(direction: number): void {
    this.panBy(ns((this.span.end - this.span.start) * PAN_SHARE * direction));
  }

  fit(): void {
    this.jump(this.model.whole);
  }

  showStep(step: Step): void {
    this.jump({ start: step.start, end: step.end });
  }

  /** Zooms to a slice. */
  focus(row: number): void {
    const { start, end } = spanOfSlice(this.model, row);
    const margin = Math.max(end - start, SHORTEST_NS) * MARGIN;
    this.jump({ start: ns(start - margin), end: ns(end + margin) });
  }

  /** Brings a slice into the window, and zooms in when it would be too narrow to see. */
  bringIn(row: number): void {
    const { start, end } = spanOfSlice(this.model, row);
    const now = this.span;
    const length = now.end - now.start;
    const dur = Math.max(1, end - start);
    const isVisible = start >= now.start && end <= now.end;
    if (isVisible && dur / length >= LEAST_SHARE) return;
    const wanted = dur / length >= LEAST_SHARE ? length : dur * FOCUS_FACTOR;
    const middle = (start + end) / 2;
    const half = Math.max(wanted, dur * 1.2) / 2;
    this.jump({ start: ns(middle - half), end: ns(middle + half) });
  }

  select(row: number): void {
    this.state.row.value = row;
    select(this.#store, wordAt(this.model.names, row), wordAt(this.model.kinds, row));
  }

  clearSelection(): void {
    this.state.row.value = -1;
    this.#store.selection.value = null;
  }

  choose(range: Span<Ns> | null): void {
    this.#store.range.value = range;
  }

  /** Chooses the time of the selected slice as the range, or that of the window without a selection. */
  chooseSelected(): void {
    const row = this.state.row.value;
    this.choose(row < 0 ? this.span : spanOfSlice(this.model, row));
  }

  /** Folds a lane to one line, or unfolds it. */
  toggleLane(lane: number): void {
    const { toggled } = this.state;
    const next = new Set(toggled.value);
    if (!next.delete(lane)) next.add(lane);
    toggled.value = next;
  }

  toggleOwnLane(): void {
    const row = this.state.row.value;
    if (row >= 0) this.toggleLane(this.placeOf(row).lane);
  }

  /** One step back: the range, then the last jump, then the selection. False when there was nothing. */
  back(): boolean {
    const { history } = this.state;
    if (this.#store.range.value !== null) {
      this.choose(null);
      return true;
    }
    const last = history.value.at(-1);
    if (last !== undefined) {
      history.value = history.value.slice(0, -1);
      this.show(last);
      return true;
    }
    const hadSelection = this.#store.selection.value !== null;
    this.clearSelection();
    return hadSelection;
  }

  /** Selects the neighbor of the selected slice. */
  step(direction: Direction): void {
    const from = this.state.row.value;
    const row = from < 0 ? this.#firstInWindow() : this.#neighbor(from, direction);
    if (row < 0) return;
    this.select(row);
    this.bringIn(row);
  }

  #firstInWindow(): number {
    for (const row of this.index.rows) {
      const kind = this.model.view.lanes[row.lane]?.kind;
      if (kind !== "thread" && kind !== "stream") continue;
      const at = this.#positionAt(row.first, row.last, this.span.start);
      if (at < row.last && (this.index.start[at] ?? 0) < this.span.end) {
        return this.index.row[at] ?? -1;
      }
    }
    return -1;
  }

  #neighbor(from: number, direction: Direction): number {
    const { index } = this;
    const { lane, depth } = this.placeOf(from);
    const rows = index.ofLane[lane] ?? [];
    const own = rows.find((row) => row.depth === depth);
    if (own === undefined) return this.#firstInWindow();
    const start = this.model.start[from] ?? 0;
    if (direction === "next" || direction === "previous") {
      const at = index.row.subarray(own.first, own.last).indexOf(from);
      const next = own.first + at + (direction === "next" ? 1 : -1);
      return next < own.first || next >= own.last ? from : (index.row[next] ?? from);
    }
    const places = index.rows;
    const at = places.indexOf(own);
    const step = direction === "down" ? 1 : -1;
    for (let next = at + step; next >= 0 && next < places.length; next += step) {
      const row = places[next];
      const kind = this.model.view.lanes[row?.lane ?? -1]?.kind;
      if (row === undefined || kind === "steps" || kind === "queue") continue;
      const position = Math.max(row.first, this.#positionAt(row.first, row.last, start + 1) - 1);
      const found = index.row[position];
      if (found !== undefined) return found;
    }
    return from;
  }

  #positionAt(first: number, last: number, time: number): number {
    const { start } = this.index;
    let low = first;
    let high = last;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((start[middle] ?? 0) >= time) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
