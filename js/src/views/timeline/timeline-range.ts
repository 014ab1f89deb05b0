/** What runs in a range of a timeline, counted by the page or by the kernel, and why devices wait in it. */

import type { Span } from "../../base/scale";
import type { Ns } from "../../base/units";
import { type RangeSum, selfByKey, sumByKey } from "../../layout/range-sums";
import { sumWaits } from "../../layout/waits";
import type { RangeAnswer } from "../../state/slice-source";
import { type Frame, numberAt, rowsOf, stringAt } from "../../wire/frame";
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
    return { ...WAITS, rows: ownWaits(model, range).map(byCause) };
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

/** The same, as the kernel counted. */
export function askedSums(
  { sums, ops, kernels }: RangeAnswer,
  table: string,
  hasDevice: boolean,
  titleOf: (name: string) => string,
): RangeSums {
  if (table === "waits") return { ...WAITS, rows: askedWaits({ sums }).map(byCause) };
  if (table === "kernels") {
    return { ...KERNELS, rows: namedIn(kernels, "calls", "sum_ns", titleOf) };
  }
  if (hasDevice) {
    const launched = namedIn(ops, "kernels", "self_device_ns", titleOf);
    return { ...OPS, rows: launched.filter(({ count }) => count > 0) };
  }
  const calls = namedIn(ops, "calls", "self_cpu_ns", titleOf);
  return { ...CALLS, rows: calls.toSorted((a, b) => b.ns - a.ns) };
}

export function askedWaits({ sums }: Pick<RangeAnswer, "sums">): readonly WaitSum[] {
  return sums.filter(({ cause }) => cause !== "");
}

/** How long a device works. */
export function busyOf({ sums }: RangeAnswer, device: number): number {
  return sums.find(({ lane, cause }) => lane === device && cause === "")?.ns ?? 0;
}

function namedIn(
  frame: Frame | null,
  count: string,
  time: string,
  titleOf: (name: string) => string,
): readonly NamedSum[] {
  if (frame === null) return [];
  return rowsOf(frame).map((row) => {
    const name = stringAt(frame, "name", row);
    return {
      name: name === "" ? NO_OP : titleOf(name),
      count: numberAt(frame, count, row),
      ns: numberAt(frame, time, row),
    };
  });
}
