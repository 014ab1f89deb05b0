/** All of a recording in one strip: phases, how busy the device or the threads are, memory, and the window. */

import { useMemo } from "preact/hooks";
import { cssColor, mix } from "../../base/color";
import { type Ns, ns } from "../../base/units";
import { FillTable } from "../../draw/fills";
import type { MinimapBrush } from "../../draw/minimap";
import { paintPhases } from "../../draw/timeline/phases";
import { coveredIn, type SliceRow } from "../../layout/slice-index";
import { type Frame, numbersOf } from "../../wire/frame";
import type { SliceLane } from "../../wire/header";
import type { ReportContext } from "../common/context";
import { useMinimap } from "../graph/use-minimap";
import { phasesOf, type TimelineModel } from "./timeline-model";
import type { TimelineMoves } from "./timeline-moves";

const STRIP_PX = 5;
const BIN_PX = 2;
// Steps that are narrower have lines only where they have a number.
const LEAST_STEP_PX = 4;

type Brush = MinimapBrush<Ns>;
/** Times with the bytes that are in use from then on. */
type MemoryCurve = readonly (readonly [Ns, number])[];

interface MinimapProps {
  readonly report: ReportContext;
  readonly moves: TimelineMoves;
}

export function TimelineMinimap({ report, moves }: MinimapProps) {
  const frame = memoryFrame(report);
  const memory = useMemo(() => (frame === null ? [] : curveOf(frame)), [frame]);
  const { overview } = moves;
  const sceneOf = () => {
    const look = report.look.value;
    return {
      theme: look.theme,
      whole: moves.whole,
      span: moves.span,
      of: [look],
      paintWhole: (brush: Brush) => {
        paintStrip(brush, overview);
        paintBusy(brush, overview);
        paintMemory(brush, memory);
        paintSteps(brush, overview);
      },
    };
  };
  const canvas = useMinimap(moves, sceneOf, [memory]);
  const isOfRanks = overview.devices.length === 0 && busyRows(overview).among > 0;
  const busy = isOfRanks ? "busy" : overview.devices.length > 0 ? "device busy" : "threads busy";
  const what = frame === null ? busy : "busy, memory";
  const title = overview.steps.length > 0 ? "All steps" : "All";
  return (
    <div class="tp-minimap">
      <span class="tp-minimap-label" title={`${title}: ${what}`}>
        <strong>{title}</strong>
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

function paintSteps({ context, size, scale, colors }: Brush, { steps }: TimelineModel): void {
  context.font = `11px ${colors.uiFont}`;
  context.textBaseline = "top";
  let free = 0;
  const isCrowded = steps.length * LEAST_STEP_PX > size.width;
  for (const step of steps) {
    const x = Math.round(scale.toPx(step.start));
    context.fillStyle = cssColor(colors.line);
    if (!isCrowded || x >= free) context.fillRect(x, 0, 1, size.height);
    if (x < free) continue;
    context.fillStyle = cssColor(colors.muted);
    context.fillText(String(step.number), x + 3, STRIP_PX + 2);
    free = x + context.measureText(String(step.number)).width + 10;
  }
}

function paintStrip({ context, scale, colors }: Brush, model: TimelineModel): void {
  const row = phasesOf(model);
  if (row === null) return;
  const fills = new FillTable(model.phases, model.kinds, colors);
  paintPhases(context, { index: model.ops, row, fills }, scale, [0, 0], STRIP_PX);
}

function paintBusy({ context, size, colors }: Brush, model: TimelineModel): void {
  context.fillStyle = cssColor(mix(colors.background, colors.muted, 0.45));
  const room = size.height - STRIP_PX - 2;
  busyShares(model, size.width).forEach((share, bin) => {
    const height = share * room;
    context.fillRect(bin * BIN_PX, size.height - height, BIN_PX, height);
  });
}

function paintMemory({ context, size, scale, colors }: Brush, memory: MemoryCurve): void {
  const most = Math.max(1, ...memory.map(([, bytes]) => bytes));
  const room = size.height - STRIP_PX - 6;
  context.strokeStyle = cssColor(colors.accent);
  context.lineWidth = 1;
  context.beginPath();
  for (const [time, bytes] of memory) {
    context.lineTo(scale.toPx(time), size.height - 2 - (bytes / most) * room);
  }
  context.stroke();
}

/** The share of each bin in which the busiest device, any of the threads, or the mean of the ranks works. */
export function busyShares(model: TimelineModel, width: number): readonly number[] {
  const bins = Math.max(1, Math.floor(width / BIN_PX));
  const { start, end } = model.whole;
  const step = (end - start) / bins;
  const { rows, among } = busyRows(model);
  return Array.from({ length: bins }, (_, bin) => {
    const from = start + bin * step;
    const covered = rows.map((row) => coveredIn(model.ops, row, from, from + step));
    const busy =
      among > 0 ? covered.reduce((sum, each) => sum + each, 0) / among : Math.max(0, ...covered);
    return Math.min(1, busy / Math.max(1, step));
  });
}

interface BusyRows {
  readonly rows: readonly SliceRow[];
  /** Of how many ranks they are; 0 for one, of which the busiest row counts. */
  readonly among: number;
}

function busyRows({ devices, ops, view }: TimelineModel): BusyRows {
  const busy = devices.flatMap((device) => (device.busy === null ? [] : [device.busy]));
  if (busy.length > 0) return { rows: busy, among: 0 };
  const rowsOf = (wanted: SliceLane["kind"], level: number) =>
    view.lanes.flatMap(({ kind }, lane) =>
      kind === wanted ? (ops.ofLane[lane] ?? []).slice(level, level + 1) : [],
    );
  // The streams of a device are beside its waits; those of ranks are alone.
  const ofRanks = devices.length === 0 ? rowsOf("stream", 0) : [];
  if (ofRanks.length > 0) {
    return { rows: ofRanks, among: new Set(view.lanes.map(({ group }) => group)).size };
  }
  // The outermost level is the step itself.
  return { rows: rowsOf("thread", 1), among: 0 };
}

/** Time and bytes of the lane that reaches highest. */
function curveOf(frame: Frame): MemoryCurve {
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
