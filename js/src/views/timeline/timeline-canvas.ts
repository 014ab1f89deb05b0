/** Connects a timeline to its canvas and the pointer. */

import { keptPer } from "../../base/kept";
import { linearScale, type Scale, type Span } from "../../base/scale";
import { type Ns, ns, px } from "../../base/units";
import type { CanvasSize } from "../../draw/canvas-view";
import type { Colors } from "../../draw/colors";
import type { FillTable } from "../../draw/fills";
import { pointOn } from "../../draw/screen-scale";
import { fitContent } from "../../draw/scrolled-canvas";
import { type Arrow, AXIS_PX, type TimelineScene } from "../../draw/timeline/scene";
import { paintTimeline } from "../../draw/timeline/timeline-painter";
import { type Curve, curveOf } from "../../layout/curve";
import {
  bandAt,
  GAP_PX,
  heightOfBands,
  keepInSight,
  type LaneBand,
  laneBands,
} from "../../layout/lane-bands";
import type { SliceRow } from "../../layout/slice-index";
import { sliceAt } from "../../layout/slice-layout";
import { tickLabel, tickStep, ticksIn } from "../../layout/time-ticks";
import type { FooterItem } from "../../state/store";
import { keyOf } from "../../wire/frame";
import { type Drag, GraphCanvas, type GraphInputs, type GraphParts } from "../graph/graph-canvas";
import { longestWaits, MOST_WAITS, waitingDevice } from "./longest-waits";
import { originOf, pathOf, phasesOf, type TimelineModel } from "./timeline-model";
import type { FoundSlice, TimelineMoves } from "./timeline-moves";
import type { SliceMatches } from "./timeline-search";
import { describeSlice } from "./timeline-words";

const TICK_PX = 90;
const GUTTER_PX = 128;
const NARROW_GUTTER_PX = 84;
const NARROW_PX = 560;
const HIT_PX = 2;
const LONG_PRESS_MS = 450;
const MOST_ARROWS = 60;
const LEAST_EDGE_PX = 4;
const NO_ARROWS = { of: null, found: [] };

export interface TimelineInputs extends GraphInputs<TimelineMoves, SliceMatches> {
  /** Whether only threads are shown. */
  readonly isOnlyThreads: boolean;
}

/** Draws a timeline until `abort`. */
export class TimelineCanvas extends GraphCanvas<Ns, TimelineMoves, TimelineInputs> {
  protected override readonly slackPx = 4;
  /** Where the fingers are. */
  readonly #touches = new Map<number, number>();
  #arrows: { readonly of: FoundSlice | null; readonly found: readonly Arrow[] } = NO_ARROWS;
  #bands: readonly LaneBand[] = [];
  /** Where the range begins that is dragged; null while the window is. */
  #rangeFrom: Ns | null = null;
  #press: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: GraphParts, inputs: TimelineInputs, abort: AbortSignal) {
    super(parts, inputs, abort);
    abort.addEventListener("abort", () => clearTimeout(this.#press));
  }

  override show(slice: number): void {
    const { scroller } = this.parts;
    const { lane, depth } = this.inputs.moves.placeOf(slice);
    this.#layout();
    const band = this.#bands.find((each) => each.lane === lane);
    if (band === undefined) return;
    const top = band.top + (band.isFolded ? 0 : Math.max(0, depth) * band.rowPx);
    const kept = this.#bands.find(({ isKept }) => isKept);
    const room =
      scroller.clientHeight - AXIS_PX - (kept === undefined || kept === band ? 0 : keptPx(kept));
    const isHidden = top < scroller.scrollTop || top + 24 > scroller.scrollTop + room;
    if (isHidden) scroller.scrollTop = Math.max(0, top - room / 2);
  }

  override follow(): void {
    super.follow();
    const { moves, store } = this.inputs;
    void store.range.value;
    void moves.find(moves.state.row.value);
    void moves.state.toggled.value;
    void moves.state.layer.value;
    void moves.state.isPath.value;
    void moves.state.window.value;
  }

  protected override gutter(): number {
    return this.view.size.width < NARROW_PX ? NARROW_GUTTER_PX : GUTTER_PX;
  }

  protected override scale(): Scale<Ns> {
    const width = Math.max(1, this.view.size.width - this.gutter());
    return linearScale(this.inputs.moves.span, px(width));
  }

  protected override paint(
    context: CanvasRenderingContext2D,
    size: CanvasSize,
    colors: Colors,
    fills: FillTable,
  ): void {
    this.#layout();
    paintTimeline(context, size, this.#scene(colors), this.texts, fills);
    this.inputs.moves.sees(this.scale().width);
  }

  protected override boxOf(row: number): number {
    return this.inputs.moves.model.sliceAt(row);
  }

  protected override describe(row: number): FooterItem {
    return describeSlice(this.inputs.moves.model, row);
  }

  protected override cursorAt(x: number, row: number): string {
    return x < this.gutter() || row >= 0 ? "pointer" : "crosshair";
  }

  protected override rowAt(event: MouseEvent): number {
    const x = this.xOf(event) - this.gutter();
    const found = this.#bandOf(event);
    if (x < 0 || found === null) return -1;
    const { band, y } = found;
    const { index, model } = this.inputs.moves;
    const rows = index.ofLane[band.lane] ?? [];
    const kind = model.view.lanes[band.lane]?.kind;
    const isNested = !band.isFolded && (kind === "thread" || kind === "annotations");
    const depth = isNested ? Math.floor(y / band.rowPx) : 0;
    const row = rows.find((each) => each.depth === depth);
    if (row === undefined) return -1;
    const scale = this.scale();
    const exact = sliceAt(index, row, scale.fromPx(px(x)), 0);
    return exact >= 0
      ? exact
      : sliceAt(index, row, scale.fromPx(px(x)), scale.lengthFromPx(px(HIT_PX)));
  }

  protected override onMove(event: PointerEvent): void {
    if (this.#touches.has(event.pointerId) && this.#touches.size === 2) {
      this.#pinch(event.pointerId, this.xOf(event));
    } else super.onMove(event);
  }

  protected override grab(event: PointerEvent, x: number): boolean {
    const isTouch = event.pointerType === "touch";
    if (isTouch) this.#touches.set(event.pointerId, x);
    if (x < this.gutter()) return false;
    const from = this.valueAt(x);
    this.#rangeFrom = isTouch || event.shiftKey ? null : from;
    if (!isTouch) return true;
    // A long press starts a range.
    this.#press = setTimeout(() => {
      if (this.drag?.moved !== false) return;
      this.drag.moved = true;
      this.#rangeFrom = from;
    }, LONG_PRESS_MS);
    return true;
  }

  protected override dragged(drag: Drag, x: number): void {
    clearTimeout(this.#press);
    const from = this.#rangeFrom;
    if (from === null) {
      super.dragged(drag, x);
      return;
    }
    const at = this.valueAt(Math.max(this.gutter(), x));
    const range = { start: ns(Math.min(from, at)), end: ns(Math.max(from, at)) };
    const { moves } = this.inputs;
    moves.choose(within(range, moves.whole));
  }

  protected override onUp(event: PointerEvent): void {
    const inGutter = this.drag === null && this.xOf(event) < this.gutter();
    super.onUp(event);
    if (inGutter) this.#toggleAt(event);
  }

  protected override endDrag(event: PointerEvent): void {
    super.endDrag(event);
    clearTimeout(this.#press);
    this.#touches.delete(event.pointerId);
  }

  protected override clickGround(): void {
    if (this.inputs.store.range.value !== null) this.inputs.moves.choose(null);
    else super.clickGround();
  }

  protected override doubleGround(): void {
    const range = this.inputs.store.range.value;
    if (range !== null) this.inputs.moves.jump(range);
  }

  protected override sideways({ deltaX, deltaY, shiftKey }: WheelEvent): number {
    const sideways = shiftKey && deltaX === 0 ? deltaY : deltaX;
    return Math.abs(sideways) > Math.abs(deltaY) || shiftKey ? sideways : 0;
  }

  #layout(): void {
    const { moves } = this.inputs;
    const { start, end } = moves.span;
    const toggled = moves.state.toggled.peek();
    const { lanes } = moves.model.view;
    const bands = laneBands({
      lanes,
      index: moves.index,
      whole: moves.wholeIndex,
      isEmpty: (lane) => moves.isEmpty(lane),
      start,
      end,
      toggled,
      isOnlyThreads: this.inputs.isOnlyThreads,
    });
    fitContent(this.parts, AXIS_PX + heightOfBands(bands), this.view.size);
    const { scroller } = this.parts;
    const window = { top: scroller.scrollTop, height: this.view.size.height - AXIS_PX };
    // Why the device waits is what the picture is asked, however many levels the threads above it have.
    const waits = lanes.findIndex(({ kind }) => kind === "waits");
    this.#bands = keepInSight(bands, waits, window);
    const kept = this.#bands.find(({ isKept }) => isKept);
    scroller.style.setProperty("--tp-kept", `${kept === undefined ? 0 : keptPx(kept)}px`);
  }

  #scene(colors: Colors): TimelineScene {
    const { moves, store, matches } = this.inputs;
    const { model, state } = moves;
    const scale = this.scale();
    const { start, end } = scale.span;
    const { origin } = originOf(model, scale.span);
    const step = tickStep(end - start, scale.width / TICK_PX);
    const ticks = ticksIn(start, end, origin, step);
    const selected = store.selection.value?.name;
    const deviceOf = (lane: number) => model.devices.find((device) => device.lane === lane);
    return {
      lanes: model.view.lanes,
      index: moves.index,
      base: model.ops,
      bands: this.#bands,
      scale,
      gutter: this.gutter(),
      scrollTop: this.parts.scroller.scrollTop,
      names: model.names,
      titles: model.titles,
      selectedSlice: state.row.value,
      selectedKey: selected === undefined ? -1 : keyOf(model.names, selected),
      hoveredSlice: this.hovered,
      matches: matches.value?.isMatch ?? null,
      currentMatch: state.match.value,
      range: store.range.value,
      longest: longestIn(moves, store.range.value),
      arrows: this.#links(),
      ticks,
      tickText: tickLabel(step, Math.max(Math.abs(start - origin), Math.abs(end - origin))),
      origin,
      stepEdges: stepEdgesIn(model, scale),
      stepPhases: phasesOf(model),
      colors,
      pathOf: (lane) => pathIn(moves, lane),
      waitsOf: (lane) => deviceOf(lane)?.waits ?? null,
      waitsFrom: model.view.waits_from_ns,
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
    const { moves } = this.inputs;
    const curve = this.#curveIn(moves.model, lane);
    const whole = this.#curveIn(moves.overview, lane) ?? curve;
    return curve === null || whole === null ? null : { curve, highest: whole.most.largest };
  }

  #curveIn(model: TimelineModel, lane: number): Curve | null {
    const row = model.ops.ofLane[lane]?.[0];
    return row === undefined ? null : curveOfRow(row, model);
  }

  /** The links of the selection: what launched it and what it launched, its forward or backward op. */
  #links(): readonly Arrow[] {
    const { moves } = this.inputs;
    const found = moves.find(moves.state.row.value);
    const { of } = this.#arrows;
    if (found?.model !== of?.model || found?.row !== of?.row) {
      const links = found === null ? [] : linksOf(found.model, found.row);
      this.#arrows = { of: found, found: links };
    }
    return this.#arrows.found;
  }

  #bandOf(event: MouseEvent): { readonly band: LaneBand; readonly y: number } | null {
    const y = pointOn(this.parts.canvas, event).y - AXIS_PX;
    if (y < 0) return null;
    const band = bandAt(this.#bands, y + this.parts.scroller.scrollTop);
    return band === undefined ? null : { band, y: y + this.parts.scroller.scrollTop - band.top };
  }

  #toggleAt(event: MouseEvent): void {
    const found = this.#bandOf(event);
    if (found !== null) this.inputs.moves.toggleLane(found.band.lane);
  }

  /** Two fingers: the time under each stays under it. */
  #pinch(id: number, x: number): void {
    const [a = 0, b = 0] = this.#touches.values();
    this.#touches.set(id, x);
    const [c = 0, d = 0] = this.#touches.values();
    const factor = Math.abs(b - a) / Math.max(8, Math.abs(d - c));
    this.drag = null;
    this.inputs.moves.zoomAround(this.valueAt((c + d) / 2), factor);
  }
}

/** Where the path goes through a thread, with its calls, or a stream; null for other lanes, and while nothing is dimmed. */
function pathIn({ state, model }: TimelineMoves, lane: number): readonly Span<Ns>[] | null {
  const kind = model.view.lanes[lane]?.kind ?? "";
  if (!state.isPath.value || !["thread", "calls", "stream"].includes(kind)) return null;
  return pathOf(model)?.get(kind === "calls" ? lane - 1 : lane) ?? [];
}

/** The height of a lane that is kept in sight, with the gaps around it. */
function keptPx({ height }: LaneBand): number {
  return height + 2 * GAP_PX;
}

const curveOfRow = keptPer((row: SliceRow, { ops, count }: TimelineModel) =>
  curveOf(ops, row, count),
);

/** The wait that the panel names first. */
function longestIn({ model, span }: TimelineMoves, range: Span<Ns> | null) {
  const device = waitingDevice(model);
  const { start, end } = range ?? span;
  if (device === undefined) return null;
  const [first] = longestWaits(device, model, start, end, MOST_WAITS);
  return first === undefined ? null : { lane: device.lane, start: first.start, end: first.end };
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
