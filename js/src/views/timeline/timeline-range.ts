/** What runs in a range of a timeline, counted by the page or by the kernel, and why devices wait in it. */

import { plural } from "../../base/format";
import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { kernelsIn, opsIn } from "../../layout/range-tables";
import { durationAt, firstEnding, firstStarting } from "../../layout/slice-index";
import { gapsIn, sumWaits } from "../../layout/waits";
import { type Frame, numberAt, rowsOf, stringAt, wordAt } from "../../wire/frame";
import type { LaneSum } from "../../wire/questions";
import { phasesOf, type TimelineModel } from "./timeline-model";

/** What work is called whose op was not recorded. */
export const NO_OP = "outside of recorded ops";

export interface NamedSum {
  readonly name: string;
  readonly count: number;
  readonly ns: number;
}

/** Sums by name, the largest first, with the heads of their columns. */
export interface RangeSums {
  readonly rows: readonly NamedSum[];
  readonly first: string;
  readonly count: string;
  readonly time: string;
}

/** Why a device waits: a cause with its time. */
export interface WaitSum {
  readonly lane: number;
  readonly cause: string;
  /** In how many gaps the cause is. */
  readonly count: number;
  readonly ns: number;
  /** How many gaps the device has, whatever their causes. */
  readonly gaps: number;
}

const WAITS = { first: "Cause", count: "In gaps", time: "Waits" };
const CALLS = { first: "Op", count: "Calls", time: "Self" };
const WORK = { first: "Op", count: "Calls", time: "GPU" };
const KERNELS = { first: "Kernel", count: "Kernels", time: "GPU" };

type TimeColumn = "sum_ns" | "self_device_ns" | "self_cpu_ns";

/** The ops or kernels of a range, counted from the slices of a model. */
export function ownSums(model: TimelineModel, range: Span<Ns>, table: string): RangeSums {
  const rows = table === "kernels" ? kernelsIn(model, range) : opsIn(model, range);
  return counted(table, model.devices.length > 0, (time) =>
    rows.map((row) => ({ name: model.titles[row.key] ?? NO_OP, count: row.calls, ns: row[time] })),
  );
}

/** The same as the kernel counted them. */
export function askedSums(
  frame: Frame,
  table: string,
  hasDevice: boolean,
  titleOf: (name: string) => string,
): RangeSums {
  return counted(table, hasDevice, (time) =>
    rowsOf(frame).map((row) => ({
      name: titleOf(stringAt(frame, "name", row)),
      count: numberAt(frame, "calls", row),
      ns: numberAt(frame, time, row),
    })),
  );
}

/** Kernels by their time, or ops by that of the work that they launched, or by their own where there is no device. */
function counted(
  table: string,
  hasDevice: boolean,
  rowsBy: (time: TimeColumn) => readonly NamedSum[],
): RangeSums {
  if (table === "kernels") return { ...KERNELS, rows: rowsBy("sum_ns") };
  const rows = hasDevice
    ? rowsBy("self_device_ns").filter(({ ns }) => ns > 0)
    : rowsBy("self_cpu_ns");
  return { ...(hasDevice ? WORK : CALLS), rows: rows.toSorted((a, b) => b.ns - a.ns) };
}

/** Why devices wait, or one of them does, by the slices of a model. */
export function ownWaits(
  model: TimelineModel,
  { start, end }: Span<Ns>,
  device?: number,
): readonly WaitSum[] {
  return model.devices
    .filter(({ lane }) => device === undefined || lane === device)
    .flatMap(({ lane, waits }) =>
      (waits === null ? [] : sumWaits(waits, start, end)).map(({ cause, count, ns }) => ({
        lane,
        cause: model.causes[cause] ?? "",
        count,
        ns,
        gaps: waits === null ? 0 : gapsIn(waits, start, end),
      })),
    );
}

export interface PhaseSum {
  readonly phase: string;
  readonly ns: number;
}

/** What the thread of the steps does between `start` and `end`, by phase, the longest first; none without steps. */
export function hostPhases(model: TimelineModel, { start, end }: Span<Ns>): readonly PhaseSum[] {
  const row = phasesOf(model);
  if (row === null) return [];
  const { ops, phases } = model;
  const sums = new Map<string, number>();
  const last = firstStarting(ops, row, end);
  for (let at = firstEnding(ops, row, start); at < last; at += 1) {
    const begin = ops.start[at] ?? 0;
    const inside = Math.min(begin + durationAt(ops, at), end) - Math.max(begin, start);
    const phase = wordAt(phases, ops.row[at] ?? -1);
    sums.set(phase, (sums.get(phase) ?? 0) + inside);
  }
  return Array.from(sums, ([phase, ns]) => ({ phase, ns }))
    .filter(({ ns }) => ns > 0)
    .toSorted((a, b) => b.ns - a.ns);
}

/** When the thread of the steps sleeps or waits between `start` and `end`: rows of the frame, with their time in it. */
export function hostWaits(
  { view, ops }: TimelineModel,
  { start, end }: Span<Ns>,
): readonly { readonly row: number; readonly ns: number }[] {
  const lane = view.lanes.findIndex(({ kind }) => kind === "host_waits");
  const [waits] = ops.ofLane[lane] ?? [];
  if (waits === undefined) return [];
  const found = [];
  const last = firstStarting(ops, waits, end);
  for (let at = firstEnding(ops, waits, start); at < last; at += 1) {
    const begin = ops.start[at] ?? 0;
    const inside = Math.min(begin + durationAt(ops, at), end) - Math.max(begin, start);
    found.push({ row: ops.row[at] ?? -1, ns: inside });
  }
  return found.toSorted((a, b) => b.ns - a.ns);
}

function byCause({ cause, count, ns }: WaitSum): NamedSum {
  return { name: cause, count, ns };
}

/** Why devices wait, as the kernel counted. */
export function askedWaits(sums: readonly LaneSum[]): readonly WaitSum[] {
  return sums.filter(({ cause }) => cause !== "");
}

/** In how many gaps a device waits: one with several causes is one gap here, and counts at each of its causes. */
export function inGaps(waits: readonly WaitSum[]): string {
  const gaps = waits[0]?.gaps ?? 0;
  return gaps < 2 ? "" : `, in ${plural(gaps, "gap")}`;
}

/** The same as a table. */
export function waitSums(waits: readonly WaitSum[]): RangeSums {
  return { ...WAITS, rows: waits.map(byCause) };
}

/** How long a device works. */
export function busyOf(sums: readonly LaneSum[], device: number): number {
  return sums.find(({ lane, cause }) => lane === device && cause === "")?.ns ?? 0;
}
