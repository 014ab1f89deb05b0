/** Connects the flame graph to its canvas and the pointer. */

import { effect, type ReadonlySignal } from "@preact/signals";
import { MERGED_ROW } from "../../base/boxes";
import { linearScale, type Scale } from "../../base/scale";
import { px, type Weight, weight } from "../../base/units";
import { type CanvasSize, CanvasView } from "../../draw/canvas-view";
import { type Colors, readColors } from "../../draw/colors";
import { FillTable, FLAME_KERNEL_TONE } from "../../draw/fills";
import { paintFlame, ROW_PX } from "../../draw/flame-painter";
import { pointOn } from "../../draw/screen-scale";
import { fitContent } from "../../draw/scrolled-canvas";
import { TextCache } from "../../draw/text-cache";
import { BoxBuffer, boxAt, depthsOf, layoutFlame } from "../../layout/flame-layout";
import { spanOf } from "../../layout/flame-place";
import type { FlameMatches } from "../../layout/flame-search";
import type { Store } from "../../state/store";
import { keyOf } from "../../wire/frame";
import type { Look } from "../common/theme-watch";
import { describeBox, weightOf } from "./flame-model";
import { Motion } from "./flame-motion";
import type { FlameMoves } from "./flame-moves";

const CLICK_SLACK_PX = 3;
const WHEEL_ZOOM_PER_PX = 0.0022;
// For wheel events that count lines or pages instead of pixels.
const WHEEL_LINE_PX = 16;

export interface FlameParts {
  readonly canvas: HTMLCanvasElement;
  readonly scroller: HTMLElement;
  /** As high as all rows together, so that the scroller scrolls. */
  readonly spacer: HTMLElement;
}

export interface FlameInputs {
  readonly moves: FlameMoves;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
  readonly matches: ReadonlySignal<FlameMatches | null>;
}

/** Draws a flame graph until `abort`; returns the anchor of zooms by key. */
export class FlameCanvas {
  readonly #parts: FlameParts;
  readonly #inputs: FlameInputs;
  readonly #view: CanvasView;
  readonly #boxes = new BoxBuffer();
  readonly #texts = new TextCache();
  readonly #motion = new Motion();
  #colors: Colors | null = null;
  #fills: FillTable | null = null;
  #weight = "";
  #hoverRow = -1;
  #pointerX: number | null = null;
  #drag: { readonly x: number; moved: boolean; last: number } | null = null;

  constructor(parts: FlameParts, inputs: FlameInputs, abort: AbortSignal) {
    this.#parts = parts;
    this.#inputs = inputs;
    this.#view = new CanvasView(parts.canvas, (context, size) => this.#paint(context, size), abort);
    this.#listen(abort);
    const stop = effect(() => this.#follow());
    abort.addEventListener("abort", stop);
  }

  /** The anchor of a zoom by key. */
  anchor(): Weight {
    const { moves } = this.#inputs;
    if (this.#pointerX !== null) return this.#scale().fromPx(px(this.#pointerX));
    const row = moves.state.row.value;
    const { start, end } = row >= 0 ? spanOf(moves.extent, row) : moves.span;
    const middle = (Math.max(start, moves.span.start) + Math.min(end, moves.span.end)) / 2;
    return weight(middle);
  }

  /** Scrolls so that the row of the tree is visible. */
  showRow(row: number): void {
    const { scroller } = this.#parts;
    const { moves } = this.#inputs;
    const { depth } = moves.model.tree;
    const top = ((depth[row] ?? 0) - (depth[moves.top] ?? 0)) * ROW_PX;
    // The spacer may still have the height of another tree or window.
    const needed = `${top + 2 * ROW_PX}px`;
    if (this.#parts.spacer.offsetHeight < top + ROW_PX) this.#parts.spacer.style.height = needed;
    const isAbove = top < scroller.scrollTop;
    const isBelow = top + ROW_PX > scroller.scrollTop + scroller.clientHeight;
    if (isAbove || isBelow) scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 2);
  }

  /** Reads all state that the picture depends on, so that any change redraws it. */
  #follow(): void {
    const { moves, store, look, matches } = this.#inputs;
    const { theme } = look.value;
    this.#colors = readColors(this.#parts.canvas, theme);
    const { phases, kinds } = moves.model;
    this.#fills = new FillTable(phases, kinds, this.#colors, FLAME_KERNEL_TONE);
    void moves.state.match.value;
    void moves.state.showsOuter.value;
    void store.selection.value;
    void moves.state.row.value;
    void matches.value;
    const name = weightOf(moves.model, moves.state.weight.value).name;
    if (name !== this.#weight || this.#drag !== null) this.#motion.jump(moves.span);
    else this.#motion.aim(moves.span, performance.now());
    this.#weight = name;
    this.#view.requestRedraw();
  }

  #scale(): Scale<Weight> {
    const span = this.#motion.at(performance.now()) ?? this.#inputs.moves.span;
    return linearScale(span, this.#view.size.width);
  }

  #paint(context: CanvasRenderingContext2D, size: CanvasSize): void {
    const { moves, store, matches } = this.#inputs;
    const { model, extent, state } = moves;
    if (this.#colors === null || this.#fills === null) return;
    layoutFlame(model.tree, extent, this.#scale(), this.#boxes, moves.top);
    this.#fitSpacer(size);
    const selected = store.selection.value?.name;
    const scene = {
      boxes: this.#boxes,
      names: model.names,
      titles: model.titles,
      calls: model.calls,
      phases: model.phases,
      kinds: model.kinds,
      runs: model.runs === null ? null : { ...model.runs, whole: extent.total },
      scrollTop: px(this.#parts.scroller.scrollTop),
      selectedKey: selected === undefined ? -1 : keyOf(model.names, selected),
      selectedRow: state.row.value,
      hoverRow: this.#hoverRow,
      matches: matches.value?.isMatch ?? null,
      currentMatch: matches.value?.rows[state.match.value] ?? -1,
      colors: this.#colors,
    };
    paintFlame(context, size, scene, this.#texts, this.#fills);
    if (this.#motion.isMoving(performance.now())) this.#view.requestRedraw();
  }

  #fitSpacer(size: CanvasSize): void {
    fitContent(this.#parts, depthsOf(this.#boxes) * ROW_PX, size);
  }

  #listen(signal: AbortSignal): void {
    const { canvas, scroller } = this.#parts;
    canvas.addEventListener("pointermove", (event) => this.#onMove(event), { signal });
    canvas.addEventListener("pointerleave", () => this.#onLeave(), { signal });
    canvas.addEventListener("pointerdown", (event) => this.#onDown(event), { signal });
    canvas.addEventListener("pointerup", (event) => this.#onUp(event), { signal });
    canvas.addEventListener("pointercancel", () => this.#endDrag(), { signal });
    canvas.addEventListener("dblclick", (event) => this.#onDouble(event), { signal });
    // Not passive: a zoom must keep the page from zooming too.
    canvas.addEventListener("wheel", (event) => this.#onWheel(event), { signal, passive: false });
    scroller.addEventListener("scroll", () => this.#view.requestRedraw(), { signal });
  }

  /** The row of the tree at the pointer; -1 for none, or for a box of merged rows. */
  #rowAt(event: MouseEvent): number {
    const { x, y } = pointOn(this.#parts.canvas, event);
    const depth = Math.floor((y + this.#parts.scroller.scrollTop) / ROW_PX);
    const box = boxAt(this.#boxes, depth, x);
    return box < 0 ? -1 : (this.#boxes.row[box] ?? MERGED_ROW);
  }

  #xOf(event: MouseEvent): number {
    return pointOn(this.#parts.canvas, event).x;
  }

  #onMove(event: PointerEvent): void {
    this.#pointerX = this.#xOf(event);
    if (this.#drag !== null) {
      this.#dragTo(this.#pointerX);
      return;
    }
    const row = this.#rowAt(event);
    if (row === this.#hoverRow) return;
    const { moves, store } = this.#inputs;
    const chosen = weightOf(moves.model, moves.state.weight.value);
    this.#hoverRow = row;
    store.hover.value = row < 0 ? null : describeBox(moves.model, row, chosen);
    this.#parts.canvas.style.cursor = row < 0 ? "default" : "pointer";
    this.#view.requestRedraw();
  }

  #onLeave(): void {
    this.#pointerX = null;
    this.#hoverRow = -1;
    this.#inputs.store.hover.value = null;
    this.#view.requestRedraw();
  }

  #onDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    const x = this.#xOf(event);
    this.#drag = { x, moved: false, last: x };
    this.#parts.canvas.setPointerCapture(event.pointerId);
  }

  #dragTo(x: number): void {
    const drag = this.#drag;
    if (drag === null) return;
    if (!drag.moved && Math.abs(x - drag.x) <= CLICK_SLACK_PX) return;
    drag.moved = true;
    this.#inputs.moves.panBy(this.#scale().lengthFromPx(px(drag.last - x)));
    drag.last = x;
  }

  #onUp(event: PointerEvent): void {
    const isClick = this.#drag !== null && !this.#drag.moved;
    this.#endDrag();
    if (!isClick) return;
    const row = this.#rowAt(event);
    if (row >= 0) this.#inputs.moves.select(row);
    else this.#inputs.moves.clearSelection();
  }

  #endDrag(): void {
    this.#drag = null;
  }

  #onDouble(event: MouseEvent): void {
    const row = this.#rowAt(event);
    if (row >= 0) this.#inputs.moves.focus(row);
  }

  #onWheel(event: WheelEvent): void {
    const { moves } = this.#inputs;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : WHEEL_LINE_PX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const anchor = this.#scale().fromPx(px(this.#xOf(event)));
      moves.zoomAround(anchor, Math.exp(event.deltaY * unit * WHEEL_ZOOM_PER_PX));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && moves.zoom > 1) {
      event.preventDefault();
      moves.panBy(this.#scale().lengthFromPx(px(event.deltaX * unit)));
    }
  }
}
