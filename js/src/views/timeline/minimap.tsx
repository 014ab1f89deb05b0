/** All of a recording in one strip: phases, how busy the device or the threads are, memory, and the window. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { cssColor, mix } from "../../base/color";
import { linearScale } from "../../base/scale";
import { type Ns, ns, px } from "../../base/units";
import { type CanvasSize, CanvasView } from "../../draw/canvas-view";
import { type Colors, readColors } from "../../draw/colors";
import { FillTable } from "../../draw/fills";
import { pointOn } from "../../draw/screen-scale";
import { coveredIn, type SliceRow } from "../../layout/slice-index";
import { layoutSlices, SliceBoxes } from "../../layout/slice-layout";
import { type Frame, numbersOf } from "../../wire/frame";
import type { ReportContext } from "../common/context";
import type { TimelineModel } from "./timeline-model";
import type { TimelineMoves } from "./timeline-moves";

const STRIP_PX = 5;
const BIN_PX = 2;
const LEAST_WINDOW_PX = 4;

interface MinimapProps {
  readonly report: ReportContext;
  readonly moves: TimelineMoves;
}

export function Minimap({ report, moves }: MinimapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<MinimapPainter | null>(null);
  const memory = memoryFrame(report);
  useEffect(() => {
    if (canvas.current === null) return;
    const abort = new AbortController();
    painter.current = new MinimapPainter(canvas.current, report, moves, memory, abort.signal);
    return () => abort.abort();
  }, [moves, memory]);
  useSignalEffect(() => {
    void report.look.value;
    void moves.state.window.value;
    void report.store.range.value;
    painter.current?.redraw();
  });
  const busy = moves.overview.devices.length > 0 ? "device busy" : "threads busy";
  const what = memory === null ? busy : "busy, memory";
  return (
    <div class="tp-minimap">
      <span class="tp-minimap-label" title={`All steps: ${what}`}>
        <strong>All steps</strong>
        <span>{what}</span>
      </span>
      {/* The lanes under it have the same data and their keys. */}
      {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas without tabIndex has no focus. */}
      <canvas ref={canvas} class="tp-minimap-canvas" aria-hidden="true" />
    </div>
  );
}

/** The memory over time, if the page has it already. */
function memoryFrame({ source }: ReportContext): Frame | null {
  const view = source.header.views.find(
    (each) => each.shape === "series" && each.offset >= 0 && each.empty === null,
  );
  if (view?.shape !== "series") return null;
  const state = source.frame(view).value;
  return state.kind === "ready" ? state.frame : null;
}

class MinimapPainter {
  readonly #canvas: HTMLCanvasElement;
  readonly #report: ReportContext;
  readonly #moves: TimelineMoves;
  readonly #memory: readonly (readonly [number, number])[];
  readonly #view: CanvasView;
  readonly #boxes = new SliceBoxes();
  #busy: { readonly width: number; readonly shares: readonly number[] } = { width: 0, shares: [] };

  constructor(
    canvas: HTMLCanvasElement,
    report: ReportContext,
    moves: TimelineMoves,
    memory: Frame | null,
    abort: AbortSignal,
  ) {
    this.#canvas = canvas;
    this.#report = report;
    this.#moves = moves;
    this.#memory = memory === null ? [] : curveOf(memory);
    this.#view = new CanvasView(canvas, (context, size) => this.#paint(context, size), abort);
    const go = (event: PointerEvent) => {
      if (event.buttons !== 1) return;
      const at = this.#scale().fromPx(px(pointOn(canvas, event).x));
      const { start, end } = moves.span;
      moves.panBy(ns(at - (start + end) / 2));
    };
    canvas.addEventListener(
      "pointerdown",
      (event) => {
        canvas.setPointerCapture(event.pointerId);
        go(event);
      },
      { signal: abort },
    );
    canvas.addEventListener("pointermove", go, { signal: abort });
  }

  redraw(): void {
    this.#view.requestRedraw();
  }

  #scale() {
    return linearScale(this.#moves.overview.whole, px(Math.max(1, this.#view.size.width)));
  }

  #paint(context: CanvasRenderingContext2D, size: CanvasSize): void {
    const { overview: model, span } = this.#moves;
    const colors = readColors(this.#canvas, this.#report.look.value.theme);
    const scale = this.#scale();
    this.#paintPhases(context, model, colors);
    this.#paintBusy(context, size, model, colors);
    this.#paintMemory(context, size, colors);
    context.font = `11px ${colors.uiFont}`;
    context.textBaseline = "top";
    let free = 0;
    for (const step of model.steps) {
      const x = Math.round(scale.toPx(step.start));
      context.fillStyle = cssColor(colors.line);
      context.fillRect(x, 0, 1, size.height);
      if (x < free) continue;
      context.fillStyle = cssColor(colors.muted);
      context.fillText(String(step.number), x + 3, STRIP_PX + 2);
      free = x + context.measureText(String(step.number)).width + 10;
    }
    const left = scale.toPx(span.start);
    const width = Math.max(LEAST_WINDOW_PX, scale.toPx(span.end) - left);
    context.strokeStyle = cssColor(colors.accent);
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, left), 1, Math.min(width, size.width - 2), size.height - 2);
  }

  #paintPhases(context: CanvasRenderingContext2D, model: TimelineModel, colors: Colors): void {
    const lane = model.view.lanes.findIndex(({ kind }) => kind === "steps");
    const row = (model.ops.ofLane[lane] ?? []).find(({ depth }) => depth === 1);
    if (row === undefined) return;
    const fills = new FillTable(model.phases, model.kinds, colors);
    layoutSlices(model.ops, row, this.#scale(), this.#boxes, (each) => fills.idOf(each));
    for (let box = 0; box < this.#boxes.count; box += 1) {
      context.fillStyle = fills.at(this.#boxes.like[box] ?? 0).box;
      context.fillRect(this.#boxes.left[box] ?? 0, 0, this.#boxes.width[box] ?? 0, STRIP_PX);
    }
  }

  #paintBusy(
    context: CanvasRenderingContext2D,
    size: CanvasSize,
    model: TimelineModel,
    colors: Colors,
  ): void {
    if (this.#busy.width !== size.width) {
      this.#busy = { width: size.width, shares: busyShares(model, size.width) };
    }
    context.fillStyle = cssColor(mix(colors.background, colors.muted, 0.45));
    const room = size.height - STRIP_PX - 2;
    this.#busy.shares.forEach((share, bin) => {
      const height = share * room;
      context.fillRect(bin * BIN_PX, size.height - height, BIN_PX, height);
    });
  }

  #paintMemory(context: CanvasRenderingContext2D, size: CanvasSize, colors: Colors): void {
    const most = Math.max(1, ...this.#memory.map(([, bytes]) => bytes));
    const scale = this.#scale();
    const room = size.height - STRIP_PX - 6;
    context.strokeStyle = cssColor(colors.accent);
    context.lineWidth = 1;
    context.beginPath();
    this.#memory.forEach(([time, bytes], at) => {
      const x = scale.toPx(ns(time));
      const y = size.height - 2 - (bytes / most) * room;
      if (at === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
    context.stroke();
  }
}

/** The share of each bin in which the busiest device, or any of the threads, works. */
function busyShares(model: TimelineModel, width: number): readonly number[] {
  const bins = Math.max(1, Math.floor(width / BIN_PX));
  const { start, end } = model.whole;
  const step = (end - start) / bins;
  const rows = busyRows(model);
  return Array.from({ length: bins }, (_, bin) => {
    const from = start + bin * step;
    const covered = rows.map((row) => coveredIn(model.ops, row, from, from + step));
    return Math.min(1, Math.max(0, ...covered) / Math.max(1, step));
  });
}

function busyRows(model: TimelineModel): readonly SliceRow[] {
  const devices = model.devices.flatMap(({ busy }) => (busy === null ? [] : [busy]));
  if (devices.length > 0) return devices;
  return model.view.lanes.flatMap(({ kind }, lane) => {
    // The outermost level is the step itself.
    const rows = model.ops.ofLane[lane] ?? [];
    return kind === "thread" ? rows.slice(1, 2) : [];
  });
}

/** Time and bytes of the lane that reaches highest. */
function curveOf(frame: Frame): readonly (readonly [Ns, number])[] {
  const lane = frame.columns.get("lane");
  const time = numbersOf(frame, "time_ns");
  const bytes = numbersOf(frame, "allocated_bytes");
  if (lane?.kind !== "text") return [];
  let highest = 0;
  for (let row = 0; row < frame.rows; row += 1) {
    if ((bytes[row] ?? 0) > (bytes[highest] ?? 0)) highest = row;
  }
  const points: (readonly [Ns, number])[] = [];
  for (let row = 0; row < frame.rows; row += 1) {
    if (lane.keys[row] === lane.keys[highest]) points.push([ns(time[row] ?? 0), bytes[row] ?? 0]);
  }
  return points;
}
