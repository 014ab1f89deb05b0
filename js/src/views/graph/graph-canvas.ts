/** Connects a graph to its canvas and the pointer. */

import type { ReadonlySignal } from "@preact/signals";
import type { Scale } from "../../base/scale";
import { px } from "../../base/units";
import { type CanvasSize, CanvasView } from "../../draw/canvas-view";
import { type Colors, readColors } from "../../draw/colors";
import { FillTable } from "../../draw/fills";
import { pointOn } from "../../draw/screen-scale";
import type { ScrolledCanvas } from "../../draw/scrolled-canvas";
import { TextCache } from "../../draw/text-cache";
import type { FooterItem, Store } from "../../state/store";
import type { Look } from "../common/theme-watch";
import type { GraphMoves } from "./graph-moves";

const WHEEL_ZOOM_PER_PX = 0.0022;
// For wheel events that count lines or pages instead of pixels.
const WHEEL_LINE_PX = 16;

export interface GraphParts extends ScrolledCanvas {
  readonly canvas: HTMLCanvasElement;
}

export interface GraphInputs<Moves, Matches> {
  readonly moves: Moves;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
  readonly matches: ReadonlySignal<Matches | null>;
}

export interface Drag {
  readonly x: number;
  moved: boolean;
  last: number;
}

/** Draws a graph, and acts on the pointer over it, until `abort`. */
export abstract class GraphCanvas<
  Unit extends number,
  Moves extends GraphMoves<Unit>,
  Inputs extends GraphInputs<Moves, unknown>,
> {
  protected readonly parts: GraphParts;
  protected readonly inputs: Inputs;
  protected readonly view: CanvasView;
  protected readonly texts = new TextCache();
  /** The box under the pointer; -1 for none. */
  protected hovered = -1;
  protected drag: Drag | null = null;
  /** How far the pointer may move in a click. */
  protected readonly slackPx: number = 3;
  protected get kernelTone(): number {
    return 1;
  }
  #colors: Colors | null = null;
  #fills: FillTable | null = null;
  #pointerX: number | null = null;

  constructor(parts: GraphParts, inputs: Inputs, abort: AbortSignal) {
    this.parts = parts;
    this.inputs = inputs;
    this.view = new CanvasView(parts.canvas, (context, size) => this.#paint(context, size), abort);
    this.#listen(abort);
  }

  /** Scrolls so that a box is visible. */
  abstract show(box: number): void;
  protected abstract scale(): Scale<Unit>;
  protected abstract paint(
    context: CanvasRenderingContext2D,
    size: CanvasSize,
    colors: Colors,
    fills: FillTable,
  ): void;
  /** The row of the frame at the pointer; -1 for none. */
  protected abstract rowAt(event: MouseEvent): number;
  protected abstract describe(row: number): FooterItem;
  protected abstract cursorAt(x: number, row: number): string;
  /** How far a turn of the wheel pans. */
  protected abstract sideways(event: WheelEvent): number;

  /** Reads all state that the picture depends on, so that any change redraws it. */
  follow(): void {
    const { moves, store, look, matches } = this.inputs;
    this.#colors = readColors(this.parts.canvas, look.value.theme);
    const { phases, kinds } = moves.model;
    this.#fills = new FillTable(phases, kinds, this.#colors, this.kernelTone);
    void store.selection.value;
    void moves.state.row.value;
    void moves.state.match.value;
    void matches.value;
    this.view.requestRedraw();
  }

  /** The anchor of a zoom by key: the pointer, else the selection, else the middle. */
  anchor(): Unit {
    const { moves } = this.inputs;
    const gutter = this.gutter();
    if (this.#pointerX !== null && this.#pointerX >= gutter) return this.valueAt(this.#pointerX);
    const box = moves.state.row.value;
    const { start, end } = box >= 0 ? moves.spanOf(box) : moves.span;
    return ((Math.max(start, moves.span.start) + Math.min(end, moves.span.end)) / 2) as Unit;
  }

  /** The width of the labels left of the graph. */
  protected gutter(): number {
    return 0;
  }

  protected valueAt(x: number): Unit {
    return this.scale().fromPx(px(x - this.gutter()));
  }

  protected xOf(event: MouseEvent): number {
    return pointOn(this.parts.canvas, event).x;
  }

  /** What a row of the frame is called in the state. */
  protected boxOf(row: number): number {
    return row;
  }

  protected onMove(event: PointerEvent): void {
    const x = this.xOf(event);
    this.#pointerX = x;
    if (this.drag !== null) {
      this.#dragTo(this.drag, x);
      return;
    }
    const row = this.rowAt(event);
    this.parts.canvas.style.cursor = this.cursorAt(x, row);
    this.#hover(row);
  }

  /** Begins to drag; false where nothing can be dragged. */
  protected grab(_event: PointerEvent, _x: number): boolean {
    return true;
  }

  protected dragged(drag: Drag, x: number): void {
    this.panPx(drag.last - x);
    drag.last = x;
  }

  protected onUp(event: PointerEvent): void {
    const isClick = this.drag !== null && !this.drag.moved;
    this.endDrag(event);
    if (!isClick) return;
    const row = this.rowAt(event);
    if (row >= 0) this.inputs.moves.select(this.boxOf(row));
    else this.clickGround();
  }

  protected endDrag(_event: PointerEvent): void {
    this.drag = null;
  }

  protected clickGround(): void {
    this.inputs.moves.clearSelection();
  }

  #onDouble(event: MouseEvent): void {
    const row = this.rowAt(event);
    if (row >= 0) this.inputs.moves.focus(this.boxOf(row));
    else this.doubleGround();
  }

  protected doubleGround(): void {}

  protected panPx(length: number): void {
    this.inputs.moves.panBy(this.scale().lengthFromPx(px(length)));
  }

  #paint(context: CanvasRenderingContext2D, size: CanvasSize): void {
    if (this.#colors === null || this.#fills === null) return;
    this.paint(context, size, this.#colors, this.#fills);
  }

  #listen(signal: AbortSignal): void {
    const { canvas, scroller } = this.parts;
    canvas.addEventListener("pointermove", (event) => this.onMove(event), { signal });
    canvas.addEventListener("pointerleave", () => this.#onLeave(), { signal });
    canvas.addEventListener("pointerdown", (event) => this.#onDown(event), { signal });
    canvas.addEventListener("pointerup", (event) => this.onUp(event), { signal });
    canvas.addEventListener("pointercancel", (event) => this.endDrag(event), { signal });
    canvas.addEventListener("dblclick", (event) => this.#onDouble(event), { signal });
    // Not passive: a zoom must keep the page from zooming too.
    canvas.addEventListener("wheel", (event) => this.#onWheel(event), { signal, passive: false });
    scroller.addEventListener("scroll", () => this.view.requestRedraw(), { signal });
  }

  #hover(row: number): void {
    const box = row < 0 ? -1 : this.boxOf(row);
    if (box === this.hovered) return;
    this.hovered = box;
    this.inputs.store.hover.value = row < 0 ? null : this.describe(row);
    this.view.requestRedraw();
  }

  #onLeave(): void {
    this.#pointerX = null;
    this.hovered = -1;
    this.inputs.store.hover.value = null;
    this.view.requestRedraw();
  }

  #onDown(event: PointerEvent): void {
    const x = this.xOf(event);
    if (event.button !== 0 || !this.grab(event, x)) return;
    this.drag = { x, moved: false, last: x };
    this.parts.canvas.setPointerCapture(event.pointerId);
  }

  #dragTo(drag: Drag, x: number): void {
    if (!drag.moved && Math.abs(x - drag.x) <= this.slackPx) return;
    drag.moved = true;
    this.dragged(drag, x);
  }

  #onWheel(event: WheelEvent): void {
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : WHEEL_LINE_PX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const factor = Math.exp(event.deltaY * unit * WHEEL_ZOOM_PER_PX);
      this.inputs.moves.zoomAround(this.valueAt(this.xOf(event)), factor);
      return;
    }
    const sideways = this.sideways(event);
    if (sideways === 0) return;
    event.preventDefault();
    this.panPx(sideways * unit);
  }
}
