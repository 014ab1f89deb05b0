/** Ops and kernels in a range of time. Times are cut at its edges; a call counts if any of it lies inside. */

import type { Span } from "../base/scale";
import type { Ns } from "../base/units";
import type { Numbers, TextColumn } from "../wire/frame";
import type { SliceLane } from "../wire/header";
import {
  durationAt,
  firstEnding,
  firstStarting,
  type SliceIndex,
  type SliceRow,
} from "./slice-index";

/** What the tables need of a timeline. */
export interface RangeSource {
  readonly ops: SliceIndex;
  readonly view: { readonly lanes: readonly SliceLane[] };
  readonly names: TextColumn;
  readonly phases: TextColumn;
  readonly start: Numbers;
  readonly dur: Numbers;
  readonly op: Numbers;
}

/** One op or kernel in a range; `key` is that of its name, -1 for work of no known op. */
export interface RangeRow {
  readonly key: number;
  /** Key of the phase with the most time. */
  readonly phase: number;
  readonly calls: number;
  readonly self_cpu_ns: number;
  readonly self_cpu_ratio: number;
  readonly total_cpu_ns: number;
  readonly self_device_ns: number;
  readonly sum_ns: number;
  readonly sum_ratio: number;
  readonly mean_ns: number;
  readonly max_ns: number;
}

interface Sums {
  calls: number;
  self: number;
  total: number;
  device: number;
  longest: number;
  readonly phases: Map<number, number>;
}

/** What the annotations of all steps are called. */
const STEP = "ProfilerStep";

class Table {
  readonly #rows = new Map<number, Sums>();

  at(key: number): Sums {
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    const made = {
      calls: 0,
      self: 0,
      total: 0,
      device: 0,
      longest: 0,
      phases: new Map<number, number>(),
    };
    this.#rows.set(key, made);
    return made;
  }

  rows(): readonly RangeRow[] {
    const all = Array.from(this.#rows);
    const self = all.reduce((sum, [, row]) => sum + row.self, 0);
    const device = all.reduce((sum, [, row]) => sum + row.device, 0);
    const rows = all.map(([key, row]) => ({
      key,
      phase: mostOf(row.phases),
      calls: row.calls,
      self_cpu_ns: row.self,
      self_cpu_ratio: row.self / Math.max(1, self),
      total_cpu_ns: row.total,
      self_device_ns: row.device,
      sum_ns: row.device,
      sum_ratio: row.device / Math.max(1, device),
      mean_ns: row.device / Math.max(1, row.calls),
      max_ns: row.longest,
    }));
    return rows.toSorted(
      (a, b) => b.self_device_ns - a.self_device_ns || b.self_cpu_ns - a.self_cpu_ns,
    );
  }
}

function mostOf(phases: ReadonlyMap<number, number>): number {
  let best = -1;
  let most = -1;
  for (const [phase, time] of phases) {
    if (time > most) {
      best = phase;
      most = time;
    }
  }
  return best;
}

function addPhase(row: Sums, phase: number, time: number): void {
  row.phases.set(phase, (row.phases.get(phase) ?? 0) + time + 1);
}

/** Calls `visit` with each slice of a row that overlaps a span, and how much of the span it takes. */
export function eachIn(
  index: SliceIndex,
  row: SliceRow,
  start: number,
  end: number,
  visit: (frameRow: number, ns: number) => void,
): void {
  const last = firstStarting(index, row, end);
  for (let at = firstEnding(index, row, start); at < last; at += 1) {
    const from = Math.max(start, index.start[at] ?? 0);
    const to = Math.min(end, (index.start[at] ?? 0) + durationAt(index, at));
    if (to > from || (to === from && durationAt(index, at) === 0)) {
      visit(index.row[at] ?? -1, to - from);
    }
  }
}

/** The ops of all threads, with the device work that they launched. */
export function opsIn(source: RangeSource, range: Span<Ns>): readonly RangeRow[] {
  const table = new Table();
  source.view.lanes.forEach(({ kind }, lane) => {
    if (kind === "thread") addThread(source, lane, range, table);
    if (kind === "stream") addStream(source, lane, range, table, (row) => nameOfOp(source, row));
  });
  return table.rows();
}

/** The kernels, copies and fills of all streams. */
export function kernelsIn(source: RangeSource, range: Span<Ns>): readonly RangeRow[] {
  const table = new Table();
  source.view.lanes.forEach(({ kind }, lane) => {
    if (kind !== "stream") return;
    addStream(source, lane, range, table, (row) => source.names.keys[row] ?? -1, true);
  });
  return table.rows();
}

function nameOfOp({ op, names }: RangeSource, row: number): number {
  return names.keys[op[row] ?? -1] ?? -1;
}

function addStream(
  source: RangeSource,
  lane: number,
  range: Span<Ns>,
  table: Table,
  keyOf: (row: number) => number,
  counts = false,
): void {
  for (const row of source.ops.ofLane[lane] ?? []) {
    eachIn(source.ops, row, range.start, range.end, (slice, time) => {
      const sums = table.at(keyOf(slice));
      sums.device += time;
      sums.longest = Math.max(sums.longest, time);
      if (counts) sums.calls += 1;
      if (counts || sums.phases.size === 0) addPhase(sums, source.phases.keys[slice] ?? -1, time);
    });
  }
}

interface Open {
  readonly key: number;
  readonly depth: number;
  readonly time: number;
}

/** The ops of a thread: what those inside an op take is not its own, and a recursive call counts once. */
function addThread(source: RangeSource, lane: number, range: Span<Ns>, table: Table): void {
  const slices: { readonly slice: number; readonly depth: number; readonly time: number }[] = [];
  for (const row of source.ops.ofLane[lane] ?? []) {
    eachIn(source.ops, row, range.start, range.end, (slice, time) => {
      slices.push({ slice, depth: row.depth, time });
    });
  }
  slices.sort(
    (a, b) => (source.start[a.slice] ?? 0) - (source.start[b.slice] ?? 0) || a.depth - b.depth,
  );
  const step = source.names.words.indexOf(STEP);
  const open: Open[] = [];
  for (const { slice, depth, time } of slices) {
    while ((open.at(-1)?.depth ?? -1) >= depth) open.pop();
    const key = source.names.keys[slice] ?? -1;
    const around = open.at(-1);
    if (around !== undefined && around.key !== step) table.at(around.key).self -= time;
    const isRecursive = open.some((each) => each.key === key);
    open.push({ key, depth, time });
    if (key === step) continue;
    const sums = table.at(key);
    sums.calls += 1;
    sums.self += time;
    if (!isRecursive) sums.total += time;
    addPhase(sums, source.phases.keys[slice] ?? -1, time);
  }
}
