/** What runs in a range of a timeline, counted by the page or by the kernel, and why devices wait in it. */

import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { type RangeSum, selfByKey, sumByKey } from "../../layout/range-sums";
import { sumWaits } from "../../layout/waits";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
import type { LaneSum } from "../../wire/questions";
import type { TimelineModel } from "./timeline-model";

const NO_OP = "launched by no known op";

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
  readonly count: number;
  readonly ns: number;
}

const WAITS = { first: "Cause", count: "Gaps", time: "Waits" };
const CALLS = { first: "Op", count: "Calls", time: "Self" };
const KERNELS = { first: "Kernel", count: "Kernels", time: "GPU" };
const OPS = { first: "Op", count: "Kernels", time: "GPU" };

/** What the slices of a model come to in a range. */
export function rangeSums(model: TimelineModel, range: Span<Ns>, table: string): RangeSums {
  const { start, end } = range;
  const named = (sums: readonly RangeSum[], other: string): readonly NamedSum[] =>
    sums.map(({ key, count, ns }) => ({ name: model.titles[key] ?? other, count, ns }));
  if (table === "waits") {
    return waitSums(ownWaits(model, range));
  }
  if (model.devices.length === 0) {
    const lanes = model.view.lanes.flatMap(({ kind }, lane) => (kind === "thread" ? [lane] : []));
    const sums = selfByKey(model.ops, lanes, start, end, (row) => model.names.keys[row] ?? -1);
    return { ...CALLS, rows: named(sums, "") };
  }
  const streams = model.devices
    .flatMap((device) => device.streams)
    .flatMap((lane) => model.ops.ofLane[lane] ?? []);
  const keyOf =
    table === "kernels"
      ? (row: number) => model.names.keys[row] ?? -1
      : (row: number) => model.names.keys[model.op[row] ?? -1] ?? -1;
  const sums = sumByKey(model.ops, streams, start, end, keyOf);
  return { ...(table === "kernels" ? KERNELS : OPS), rows: named(sums, NO_OP) };
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
      })),
    );
}

function byCause({ cause, count, ns }: WaitSum): NamedSum {
  return { name: cause, count, ns };
}

/** The ops or kernels of a range as the kernel counted them. */
export function askedSums(
  frame: Frame,
  table: string,
  hasDevice: boolean,
  titleOf: (name: string) => string,
): RangeSums {
  if (table === "kernels") return { ...KERNELS, rows: namedIn(frame, "sum_ns", titleOf) };
  const launched = hasDevice
    ? namedIn(frame, "self_device_ns", titleOf).filter(({ ns }) => ns > 0)
    : namedIn(frame, "self_cpu_ns", titleOf);
  const rows = launched.toSorted((a, b) => b.ns - a.ns);
  return { ...CALLS, time: hasDevice ? OPS.time : CALLS.time, rows };
}

/** Why devices wait, as the kernel counted. */
export function askedWaits(sums: readonly LaneSum[]): readonly WaitSum[] {
  return sums.filter(({ cause }) => cause !== "");
}

/** The same as a table. */
export function waitSums(waits: readonly WaitSum[]): RangeSums {
  return { ...WAITS, rows: waits.map(byCause) };
}

/** How long a device works. */
export function busyOf(sums: readonly LaneSum[], device: number): number {
  return sums.find(({ lane, cause }) => lane === device && cause === "")?.ns ?? 0;
}

function namedIn(
  frame: Frame,
  time: string,
  titleOf: (name: string) => string,
): readonly NamedSum[] {
  return rowsOf(frame).map((row) => ({
    name: titleOf(stringAt(frame, "name", row)),
    count: numberAt(frame, "calls", row),
    ns: numberAt(frame, time, row),
  }));
}
