/** Connects a timeline to its canvas and the pointer. */

import { effect, type ReadonlySignal } from "@preact/signals";
import { linearScale, type Scale, type Span } from "../../base/scale";
import { type Ns, ns, px } from "../../base/units";
import { type CanvasSize, CanvasView } from "../../draw/canvas-view";
import { type Colors, readColors } from "../../draw/colors";
import { FillTable } from "../../draw/fills";
import { pointOn } from "../../draw/screen-scale";
import { fitContent } from "../../draw/scrolled-canvas";
import { TextCache } from "../../draw/text-cache";
import {
  type Arrow,
  AXIS_PX,
  paintTimeline,
  type TimelineScene,
} from "../../draw/timeline-painter";
import { type Curve, curveOf } from "../../layout/curve";
import { bandAt, heightOfBands, type LaneBand, laneBands } from "../../layout/lane-bands";
import { sliceAt } from "../../layout/slice-layout";
import { tickLabel, tickStep, ticksIn } from "../../layout/time-ticks";
import type { Store } from "../../state/store";
import { keyOf } from "../../wire/frame";
import type { Look } from "../common/theme-watch";
import { originOf, type TimelineModel } from "./timeline-model";
import type { FoundSlice, TimelineMoves } from "./timeline-moves";
import type { SliceMatches } from "./timeline-search";
import { describeSlice } from "./timeline-words";

const CLICK_SLACK_PX = 4;
const WHEEL_ZOOM_PER_PX = 0.0022;
const WHEEL_LINE_PX = 16;
const TICK_PX = 90;
const GUTTER_PX = 128;
const NARROW_GUTTER_PX = 84;
const NARROW_PX = 560;
const HIT_PX = 2;
const LONG_PRESS_MS = 450;
const MOST_ARROWS = 60;
const LEAST_EDGE_PX = 4;
const NO_ARROWS = { of: null, found: [] };

export interface TimelineParts {
  readonly canvas: HTMLCanvasElement;
  readonly scroller: HTMLElement;
  /** As high as all lanes together, so that the scroller scrolls. */
  readonly spacer: HTMLElement;
}

export interface TimelineInputs {
  readonly moves: TimelineMoves;
  readonly store: Store;
  readonly look: ReadonlySignal<Look>;
  readonly matches: ReadonlySignal<SliceMatches | null>;
  /** Whether only threads are shown. */
  readonly isOnlyThreads: boolean;
}

interface Drag {
  readonly x: number;
  readonly kind: "range" | "pan";
  readonly from: Ns;
  moved: boolean;
  last: number;
}

/** Draws a timeline until `abort`. */
export class TimelineCanvas {
  readonly #parts: TimelineParts;
  readonly #inputs: TimelineInputs;
  readonly #view: CanvasView;
  readonly #texts = new TextCache();
  readonly #curves = new WeakMap<TimelineModel, Map<number, Curve>>();
  readonly #touches = new Map<number, number>();
  #arrows: { readonly of: FoundSlice | null; readonly found: readonly Arrow[] } = NO_ARROWS;
  #colors: Colors | null = null;
  #fills: FillTable | null = null;
  #bands: readonly LaneBand[] = [];
  /** The slice under the pointer; -1 for none. */
  #hovered = -1;
  #pointerX: number | null = null;
  #drag: Drag | null = null;
  #press: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: TimelineParts, inputs: TimelineInputs, abort: AbortSignal) {
    this.#parts = parts;
    this.#inputs = inputs;
    this.#view = new CanvasView(parts.canvas, (context, size) => this.#paint(context, size), abort);
    this.#listen(abort);
    const stop = effect(() => this.#follow());
    abort.addEventListener("abort", () => {
      stop();
      clearTimeout(this.#press);
    });
  }

  /** The anchor of a zoom by key: the pointer, else the selection, else the middle. */
  anchor(): Ns {
    const { moves } = this.#inputs;
    if (this.#pointerX !== null && this.#pointerX > this.#gutter()) {
      return this.#scale().fromPx(px(this.#pointerX - this.#gutter()));
    }
    const slice = moves.state.row.value;
    const { start, end } = slice >= 0 ? moves.spanOf(slice) : moves.span;
    const middle = (Math.max(start, moves.span.start) + Math.min(end, moves.span.end)) / 2;
    return ns(middle);
  }

  /** Scrolls so that the lane of a slice is visible. */
  showSlice(slice: number): void {
    const { scroller } = this.#parts;
    const { lane, depth } = this.#inputs.moves.placeOf(slice);
    this.#layout();
    const band = this.#bands.find((each) => each.lane === lane);
    if (band === undefined) return;
    const top = band.top + (band.isFolded ? 0 : Math.max(0, depth) * band.rowPx);
    const room = scroller.clientHeight - AXIS_PX;
    const isHidden = top < scroller.scrollTop || top + 24 > scroller.scrollTop + room;
    if (isHidden) scroller.scrollTop = Math.max(0, top - room / 2);
  }

  #gutter(): number {
    return this.#view.size.width < NARROW_PX ? NARROW_GUTTER_PX : GUTTER_PX;
  }

  /** Reads all state that the picture depends on, so that any change redraws it. */
  #follow(): void {
    const { moves, store, look, matches } = this.#inputs;
    const { theme } = look.value;
    this.#colors = readColors(this.#parts.canvas, theme);
    this.#fills = new FillTable(moves.model.phases, moves.model.kinds, this.#colors);
    void store.selection.value;
    void store.range.value;
    void moves.find(moves.state.row.value);
    void moves.state.match.value;
    void moves.state.toggled.value;
    void moves.state.layer.value;
    void moves.state.window.value;
    void matches.value;
    this.#view.requestRedraw();
  }

  #scale(): Scale<Ns> {
    const width = Math.max(1, this.#view.size.width - this.#gutter());
    return linearScale(this.#inputs.moves.span, px(width));
  }

  #layout(): void {
    const { moves } = this.#inputs;
    const { start, end } = moves.span;
    const toggled = moves.state.toggled.peek();
    this.#bands = laneBands({
      lanes: moves.model.view.lanes,
      index: moves.index,
      whole: moves.wholeIndex,
      isEmpty: (lane) => moves.isEmpty(lane),
      start,
      end,
      toggled,
      isOnlyThreads: this.#inputs.isOnlyThreads,
    });
    fitContent(this.#parts, AXIS_PX + heightOfBands(this.#bands), this.#view.size);
  }

  #paint(context: CanvasRenderingContext2D, size: CanvasSize): void {
    if (this.#colors === null || this.#fills === null) return;
    this.#layout();
    paintTimeline(context, size, this.#scene(this.#colors), this.#texts, this.#fills);
    this.#inputs.moves.sees(this.#scale().width);
  }

  #scene(colors: Colors): TimelineScene {
    const { moves, store, matches } = this.#inputs;
    const { model, state } = moves;
    const scale = this.#scale();
    const { start, end } = scale.span;
    const { origin } = originOf(model, scale.span);
    const step = tickStep(end - start, scale.width / TICK_PX);
    const ticks = ticksIn(start, end, origin, step);
    const selected = store.selection.value?.name;
    const deviceOf = (lane: number) => model.devices.find((device) => device.lane === lane);
    const stepsLane = model.view.lanes.findIndex(({ kind }) => kind === "steps");
    const stepRows = model.ops.ofLane[stepsLane] ?? [];
    return {
      lanes: model.view.lanes,
      index: moves.index,
      base: model.ops,
      bands: this.#bands,
      scale,
      gutter: this.#gutter(),
      scrollTop: this.#parts.scroller.scrollTop,
      names: model.names,
      titles: model.titles,
      selectedSlice: state.row.value,
      selectedKey: selected === undefined ? -1 : keyOf(model.names, selected),
      hoveredSlice: this.#hovered,
      matches: matches.value?.isMatch ?? null,
      currentMatch: state.match.value,
      range: store.range.value,
      arrows: this.#links(),
      ticks,
      tickText: tickLabel(step, Math.max(Math.abs(start - origin), Math.abs(end - origin))),
      origin,
      stepEdges: stepEdgesIn(model, scale),
      stepPhases: stepRows.find(({ depth }) => depth === 1) ?? null,
      colors,
      waitsOf: (lane) => deviceOf(lane)?.waits ?? null,
      busyOf: (lane) => deviceOf(lane)?.busy ?? null,
      causeTitle: (cause) => model.causes[cause] ?? "",
      curveOf: (lane) => this.#curveOf(lane),
      levelOf: (slice) => {
        const found = moves.find(slice);
        return found?.model.count[found.row] ?? 0;
      },
      placeOf: (slice) => moves.placeOf(slice),
      spanOf: (slice) => moves.spanOf(slice),
    };
  }

  /** The values of a queue or counter in the picture, and the highest of the whole recording. */
  #curveOf(lane: number) {
    const { moves } = this.#inputs;
    const curve = this.#curveIn(moves.model, lane);
    const whole = this.#curveIn(moves.overview, lane) ?? curve;
    return curve === null || whole === null ? null : { curve, highest: whole.most.largest };
  }

  #curveIn(model: TimelineModel, lane: number): Curve | null {
    const known = this.#curves.get(model) ?? new Map<number, Curve>();
    this.#curves.set(model, known);
    const row = model.ops.ofLane[lane]?.[0];
    if (known.has(lane) || row === undefined) return known.get(lane) ?? null;
    const made = curveOf(model.ops, row, model.count);
    known.set(lane, made);
    return made;
  }

  /** The links of the selection: what launched it and what it launched, its forward or backward op. */
  #links(): readonly Arrow[] {
    const { moves } = this.#inputs;
    const found = moves.find(moves.state.row.value);
    const { of } = this.#arrows;
    if (found?.model !== of?.model || found?.row !== of?.row) {
      const links = found === null ? [] : linksOf(found.model, found.row);
      this.#arrows = { of: found, found: links };
    }
    return this.#arrows.found;
  }

  #listen(signal: AbortSignal): void {
    const { canvas, scroller } = this.#parts;
    canvas.addEventListener("pointermove", (event) => this.#onMove(event), { signal });
    canvas.addEventListener("pointerleave", () => this.#onLeave(), { signal });
    canvas.addEventListener("pointerdown", (event) => this.#onDown(event), { signal });
    canvas.addEventListener("pointerup", (event) => this.#onUp(event), { signal });
    canvas.addEventListener("pointercancel", (event) => this.#endDrag(event), { signal });
    canvas.addEventListener("dblclick", (event) => this.#onDouble(event), { signal });
    // Not passive: a zoom must keep the page from zooming too.
    canvas.addEventListener("wheel", (event) => this.#onWheel(event), { signal, passive: false });
    scroller.addEventListener("scroll", () => this.#view.requestRedraw(), { signal });
  }

  #xOf(event: MouseEvent): number {
    return pointOn(this.#parts.canvas, event).x;
  }

  #bandOf(event: MouseEvent): { readonly band: LaneBand; readonly y: number } | null {
    const y = pointOn(this.#parts.canvas, event).y - AXIS_PX;
    if (y < 0) return null;
    const band = bandAt(this.#bands, y + this.#parts.scroller.scrollTop);
    return band === undefined ? null : { band, y: y + this.#parts.scroller.scrollTop - band.top };
  }

  /** The slice at the pointer; -1 for none. */
  #rowAt(event: MouseEvent): number {
    const x = this.#xOf(event) - this.#gutter();
    const found = this.#bandOf(event);
    if (x < 0 || found === null) return -1;
    const { band, y } = found;
    const { index, model } = this.#inputs.moves;
    const rows = index.ofLane[band.lane] ?? [];
    const kind = model.view.lanes[band.lane]?.kind;
    const isNested = !band.isFolded && (kind === "thread" || kind === "annotations");
    const depth = isNested ? Math.floor(y / band.rowPx) : 0;
    const row = rows.find((each) => each.depth === depth);
    if (row === undefined) return -1;
    const scale = this.#scale();
    const exact = sliceAt(index, row, scale.fromPx(px(x)), 0);
    return exact >= 0
      ? exact
      : sliceAt(index, row, scale.fromPx(px(x)), scale.lengthFromPx(px(HIT_PX)));
  }

  #onMove(event: PointerEvent): void {
    const x = this.#xOf(event);
    if (this.#touches.has(event.pointerId) && this.#touches.size === 2) {
      this.#pinch(event.pointerId, x);
      return;
    }
    this.#pointerX = x;
    if (this.#drag !== null) {
      this.#dragTo(x);
      return;
    }
    const row = this.#rowAt(event);
    const isGutter = x < this.#gutter();
    this.#parts.canvas.style.cursor = isGutter || row >= 0 ? "pointer" : "crosshair";
    const { moves, store } = this.#inputs;
    const slice = row < 0 ? -1 : moves.model.sliceAt(row);
    if (slice === this.#hovered) return;
    this.#hovered = slice;
    store.hover.value = row < 0 ? null : describeSlice(moves.model, row);
    this.#view.requestRedraw();
  }

  #onLeave(): void {
    this.#pointerX = null;
    this.#hovered = -1;
    this.#inputs.store.hover.value = null;
    this.#view.requestRedraw();
  }

  #onDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    const x = this.#xOf(event);
    const isTouch = event.pointerType === "touch";
    if (isTouch) this.#touches.set(event.pointerId, x);
    if (x < this.#gutter()) return;
    const from = this.#scale().fromPx(px(x - this.#gutter()));
    const kind = isTouch || event.shiftKey ? "pan" : "range";
    this.#drag = { x, kind, from, moved: false, last: x };
    this.#parts.canvas.setPointerCapture(event.pointerId);
    if (!isTouch) return;
    // A long press starts a range.
    this.#press = setTimeout(() => {
      if (this.#drag?.moved === false) this.#drag = { ...this.#drag, kind: "range", moved: true };
    }, LONG_PRESS_MS);
  }

  #dragTo(x: number): void {
    const drag = this.#drag;
    if (drag === null) return;
    if (!drag.moved && Math.abs(x - drag.x) <= CLICK_SLACK_PX) return;
    drag.moved = true;
    clearTimeout(this.#press);
    const { moves } = this.#inputs;
    const scale = this.#scale();
    if (drag.kind === "pan") {
      moves.panBy(scale.lengthFromPx(px(drag.last - x)));
      drag.last = x;
      return;
    }
    const at = scale.fromPx(px(Math.max(0, x - this.#gutter())));
    const range = { start: ns(Math.min(drag.from, at)), end: ns(Math.max(drag.from, at)) };
    moves.choose(within(range, moves.overview.whole));
  }

  /** Two fingers: the time under each stays under it. */
  #pinch(id: number, x: number): void {
    const { moves } = this.#inputs;
    const before = Array.from(this.#touches.values());
    this.#touches.set(id, x);
    const after = Array.from(this.#touches.values());
    const [a = 0, b = 0] = before;
    const [c = 0, d = 0] = after;
    const factor = Math.abs(b - a) / Math.max(8, Math.abs(d - c));
    const middle = this.#scale().fromPx(px((c + d) / 2 - this.#gutter()));
    this.#drag = null;
    moves.zoomAround(middle, factor);
  }

  #onUp(event: PointerEvent): void {
    const isClick = this.#drag !== null && !this.#drag.moved;
    const inGutter = this.#drag === null && this.#xOf(event) < this.#gutter();
    this.#endDrag(event);
    if (inGutter) this.#toggleAt(event);
    if (!isClick) return;
    const { moves } = this.#inputs;
    const row = this.#rowAt(event);
    if (row >= 0) moves.select(moves.model.sliceAt(row));
    else if (this.#inputs.store.range.value !== null) moves.choose(null);
    else moves.clearSelection();
  }

  #endDrag(event: PointerEvent): void {
    this.#drag = null;
    clearTimeout(this.#press);
    this.#touches.delete(event.pointerId);
  }

  #toggleAt(event: MouseEvent): void {
    const found = this.#bandOf(event);
    if (found !== null) this.#inputs.moves.toggleLane(found.band.lane);
  }

  #onDouble(event: MouseEvent): void {
    const { moves } = this.#inputs;
    const row = this.#rowAt(event);
    if (row >= 0) moves.focus(moves.model.sliceAt(row));
    else if (this.#inputs.store.range.value !== null) moves.jump(this.#inputs.store.range.value);
  }

  #onWheel(event: WheelEvent): void {
    const { moves } = this.#inputs;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : WHEEL_LINE_PX;
    const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const anchor = this.#scale().fromPx(px(this.#xOf(event) - this.#gutter()));
      moves.zoomAround(anchor, Math.exp(event.deltaY * unit * WHEEL_ZOOM_PER_PX));
    } else if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      moves.panBy(this.#scale().lengthFromPx(px(sideways * unit)));
    }
  }
}

/** The edges of steps in the window; none where they stand so close that they would cover the lanes. */
function stepEdgesIn({ steps }: TimelineModel, { span, width }: Scale<Ns>): readonly number[] {
  const edges = steps
    .flatMap((each) => [each.start, each.end])
    .filter((at) => at > span.start && at < span.end);
  return edges.length * LEAST_EDGE_PX > width ? [] : edges;
}

function within(range: Span<Ns>, whole: Span<Ns>): Span<Ns> {
  return {
    start: ns(Math.max(range.start, whole.start)),
    end: ns(Math.min(range.end, whole.end)),
  };
}

/** Arrows from launch calls to work, and from forward to backward ops, that begin or end at a row; they join slices. */
export function linksOf(model: TimelineModel, row: number): readonly Arrow[] {
  const found: Arrow[] = [];
  const source = model.source[row] ?? -1;
  const arrow = (from: number, to: number) =>
    found.push({ from: model.sliceAt(from), to: model.sliceAt(to) });
  if (source >= 0) arrow(source, row);
  for (let each = 0; each < model.source.length && found.length < MOST_ARROWS; each += 1) {
    const from = model.source[each] ?? -1;
    if (from < 0) continue;
    if (from === row || (model.op[each] === row && each !== row)) arrow(from, each);
  }
  return found;
}
