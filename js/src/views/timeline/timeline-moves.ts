/** Navigation in a timeline. It changes state and draws nothing. */

import type { Direction } from "../../base/direction";
import { panSpan, type Span, zoomSpan } from "../../base/scale";
import { firstWhere } from "../../base/search";
import { type Ns, ns } from "../../base/units";
import { hasSlices, type SliceIndex, type SliceRow } from "../../layout/slice-index";
import { type Store, select, type TimelineState } from "../../state/store";
import { numberAt, wordAt } from "../../wire/frame";
import type { SliceLane } from "../../wire/header";
import { GraphMoves, MOST_HISTORY } from "../graph/graph-moves";
import { pathOf, type Step, spanOfSlice, type TimelineModel, typicalSpan } from "./timeline-model";
import type { TimelineModels } from "./timeline-models";

// The kernel refuses more.
const MOST_PIXELS = 16_384;
const SHORTEST_NS = ns(200);
// A slice that is shown on request is at least this part of the window, or the window gets shorter.
const LEAST_SHARE = 0.004;
const FOCUS_FACTOR = 12;
// What a double click leaves free on both sides.
const MARGIN = 0.05;

// Lanes of values and of what stands on the axis; the keys pass over them.
const UNNAMED: readonly SliceLane["kind"][] = ["steps", "queue", "counter"];

/** A slice in one of the models. */
export interface FoundSlice {
  readonly model: TimelineModel;
  readonly row: number;
}

/** Slices are named by their number in the recording, which is their row where the page has all of it. */
export class TimelineMoves extends GraphMoves<Ns> {
  readonly models: TimelineModels;
  override readonly state: TimelineState;
  #typical: Span<Ns> | null = null;

  constructor(models: TimelineModels, state: TimelineState, store: Store) {
    super(store);
    this.models = models;
    this.state = state;
  }

  /** The model of what is to be seen. */
  override get model(): TimelineModel {
    return this.models.picture.value;
  }

  /** The model of the whole recording; it may have slices merged that the picture has single. */
  get overview(): TimelineModel {
    return this.models.overview;
  }

  override get whole(): Span<Ns> {
    return this.overview.whole;
  }

  override get span(): Span<Ns> {
    this.#typical ??= typicalSpan(this.overview);
    return this.state.window.value ?? this.#typical;
  }

  /** The layer of the picture. */
  get layer(): string {
    return this.models.layer.value ?? this.chosenLayer;
  }

  /** The chosen layer, or the first. */
  get chosenLayer(): string {
    const { layers } = this.overview.view;
    const chosen = layers.find(({ column }) => column === this.state.layer.value);
    return (chosen ?? layers[0])?.column ?? "depth";
  }

  get index(): SliceIndex {
    return this.model.index(this.layer);
  }

  /** The index of the whole recording. */
  get wholeIndex(): SliceIndex {
    return this.overview.index(this.layer);
  }

  /** Whether the picture is as fine as it is to be; false while a window is asked for. */
  get isComplete(): boolean {
    return this.models.source?.windows.isComplete.value ?? true;
  }

  /** Whether a lane has nothing in the window. Before the window is there, lanes with anything near it stay open. */
  isEmpty(lane: number): boolean {
    const { start, end } = this.span;
    if (hasSlices(this.index, lane, start, end)) return false;
    if (this.isComplete) return true;
    const near = this.overview.view.excerpt?.bucket_ns ?? 0;
    return !hasSlices(this.wholeIndex, lane, start - near, end + near);
  }

  /** A slice where it is known best; null when it is not known yet. */
  find(slice: number): FoundSlice | null {
    for (const model of [this.models.detail.value, this.model]) {
      const row = slice < 0 ? -1 : (model?.rowOf(slice) ?? -1);
      if (model !== null && row >= 0) return { model, row };
    }
    return null;
  }

  /** Whether all that belongs to a slice is known. */
  isDetailed(slice: number): boolean {
    const detailed = this.models.detailed.value;
    return detailed === null || detailed === slice;
  }

  /** The lane of a slice, and its depth in the shown layer; -1 when that hides it. */
  placeOf(slice: number): { readonly lane: number; readonly depth: number } {
    const found = this.find(slice);
    if (found === null) return { lane: -1, depth: -1 };
    const { model, row } = found;
    return { lane: model.lane[row] ?? 0, depth: numberAt(model.frame, this.layer, row) };
  }

  override spanOf(slice: number): Span<Ns> {
    const found = this.find(slice);
    return found === null ? this.span : spanOfSlice(found.model, found.row);
  }

  /** Tells what is to be seen on so many pixels, which may have to be asked for. */
  sees(pixels: number): void {
    const { start, end } = this.span;
    this.models.source?.windows.want({
      layer: this.chosenLayer,
      start,
      end,
      pixels: Math.min(MOST_PIXELS, Math.max(1, Math.round(pixels))),
    });
  }

  /** Asks for what belongs to the selected slice. */
  askForDetail(): void {
    const slice = this.state.row.value;
    const question = { kind: "slice", layer: this.chosenLayer, slice } as const;
    this.models.source?.slice.want(slice < 0 ? null : question);
  }

  show(span: Span<Ns>): void {
    this.state.window.value = span;
  }

  /** Goes to another part of the recording; Esc comes back. */
  jump(span: Span<Ns>): void {
    const { history } = this.state;
    history.value = [...history.value, this.span].slice(-MOST_HISTORY);
    this.show(zoomSpan(span, span.start, 1, this.whole, SHORTEST_NS));
  }

  override zoomAround(anchor: Ns, factor: number): void {
    this.show(zoomSpan(this.span, anchor, factor, this.whole, SHORTEST_NS));
  }

  override panBy(delta: Ns): void {
    this.show(panSpan(this.span, delta, this.whole));
  }

  override fit(): void {
    this.jump(this.whole);
  }

  showStep(step: Step): void {
    this.jump({ start: step.start, end: step.end });
  }

  override focus(slice: number): void {
    const { start, end } = this.spanOf(slice);
    const margin = Math.max(end - start, SHORTEST_NS) * MARGIN;
    this.jump({ start: ns(start - margin), end: ns(end + margin) });
  }

  /** Brings a slice into the window, and zooms in when it would be too narrow to see. */
  bringIn({ start, end }: Span<Ns>): void {
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

  override select(slice: number): void {
    const found = this.find(slice);
    if (found === null) return;
    const { model, row } = found;
    this.selectNamed(slice, wordAt(model.names, row), wordAt(model.kinds, row));
  }

  /** Selects a slice that need not be known yet. */
  selectNamed(slice: number, name: string, kind: string): void {
    this.state.row.value = slice;
    select(this.store, name, kind);
  }

  choose(range: Span<Ns> | null): void {
    this.store.range.value = range;
  }

  /** Chooses the time of the selected slice as the range, or that of the window without a selection. */
  chooseSelected(): void {
    const row = this.state.row.value;
    this.choose(row < 0 ? this.span : this.spanOf(row));
  }

  /** Folds a lane to one line, or unfolds it. */
  toggleLane(lane: number): void {
    const { toggled } = this.state;
    const next = new Set(toggled.value);
    if (!next.delete(lane)) next.add(lane);
    toggled.value = next;
  }

  /** Dims what is not on the critical path, or no longer. */
  togglePath(): void {
    const { isPath } = this.state;
    isPath.value = !isPath.value && pathOf(this.overview) !== null;
  }

  toggleOwnLane(): void {
    const row = this.state.row.value;
    if (row >= 0) this.toggleLane(this.placeOf(row).lane);
  }

  /** One step back: the range, then the last jump, then the selection. False when there was nothing. */
  override back(): boolean {
    const { history } = this.state;
    if (this.store.range.value !== null) {
      this.choose(null);
      return true;
    }
    const last = history.value.at(-1);
    if (last !== undefined) {
      history.value = history.value.slice(0, -1);
      this.show(last);
      return true;
    }
    const hadSelection = this.store.selection.value !== null;
    this.clearSelection();
    return hadSelection;
  }

  override step(direction: Direction): void {
    const from = this.state.row.value;
    const to = from < 0 ? this.#firstInWindow() : this.#neighbor(from, direction);
    if (to < 0) return;
    this.select(to);
    this.bringIn(this.spanOf(to));
  }

  #firstInWindow(): number {
    for (const row of this.index.rows) {
      const kind = this.model.view.lanes[row.lane]?.kind;
      if (kind !== "thread" && kind !== "stream") continue;
      const at = positionAt(this.index, row, this.span.start);
      if (at < row.last && (this.index.start[at] ?? 0) < this.span.end) {
        return this.model.sliceAt(this.index.row[at] ?? -1);
      }
    }
    return -1;
  }

  /** The neighbor of a slice; itself when there is none, or none is known yet. */
  #neighbor(from: number, direction: Direction): number {
    const found = this.find(from);
    const isPending = this.models.source !== null && !this.isDetailed(from);
    if (found === null || isPending) return from;
    const { model, row } = found;
    const to = neighborIn(model, model.index(this.layer), row, this.layer, direction);
    return to < 0 ? this.#firstInWindow() : model.sliceAt(to);
  }
}

/** The row of the neighbor of a row, itself when there is none; -1 when it is not in the layer. */
function neighborIn(
  model: TimelineModel,
  index: SliceIndex,
  from: number,
  layer: string,
  direction: Direction,
): number {
  const depth = numberAt(model.frame, layer, from);
  const own = (index.ofLane[model.lane[from] ?? -1] ?? []).find((row) => row.depth === depth);
  if (own === undefined) return -1;
  if (direction === "next" || direction === "previous") {
    const at = index.row.subarray(own.first, own.last).indexOf(from);
    const next = own.first + at + (direction === "next" ? 1 : -1);
    return next < own.first || next >= own.last ? from : (index.row[next] ?? from);
  }
  const start = model.start[from] ?? 0;
  const step = direction === "down" ? 1 : -1;
  for (let next = index.rows.indexOf(own) + step; next in index.rows; next += step) {
    const row = index.rows[next];
    const kind = model.view.lanes[row?.lane ?? -1]?.kind;
    if (row === undefined || kind === undefined || UNNAMED.includes(kind)) continue;
    const found = index.row[Math.max(row.first, positionAt(index, row, start + 1) - 1)];
    if (found !== undefined) return found;
  }
  return from;
}

/** The first position of a row of slices from which on they begin at a moment or later. */
function positionAt({ start }: SliceIndex, { first, last }: SliceRow, time: number): number {
  return firstWhere(first, last, (at) => (start[at] ?? 0) >= time);
}
